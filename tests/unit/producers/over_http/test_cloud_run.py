"""The program for Cloud Run in docs/howto/lambda.md sends the events of a request before its answer is complete."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.gateway_contract import GatewayServer
from tests.support.snippets import files

pytestmark = pytest.mark.slow


def test_events_of_a_request_are_sent_before_it_is_answered(
    server: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHGEAR_GATEWAY_URL", server.url)
    program: dict[str, Any] = {}
    exec(files("docs/howto/lambda.md")["main.py"], program)
    app, gear = program["app"], program["gear"]

    def forecast() -> str:
        with gear.permit("mcp:weather:get_forecast"):
            return "sunny"

    app.get("/forecast")(forecast)

    try:
        assert TestClient(app).get("/forecast").json() == "sunny"
        assert [event["tool_name"] for event in server.taken] == ["mcp:weather:get_forecast"]
    finally:
        gear.close(0)
