"""Pages over calls that an older release stored with a time in the future."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from tests.support.engine import call, store_calls, store_circuits

TOOL = "search"


@pytest.fixture
async def get(store):
    now = datetime.now(UTC)
    failed = {"error_type": "E", "session_id": "s", "user_id": "u", "service": "agents", "execution_time_ms": 10.0}
    ahead = failed | {"error_message": "from the future", "service": "elsewhere", "execution_time_ms": 90_000.0}
    await store_calls(
        store,
        [
            *[
                call(TOOL, "error", at=now - timedelta(seconds=each), error_message="real", **failed)
                for each in range(6)
            ],
            *[call(TOOL, "error", at=now + timedelta(hours=each), **ahead) for each in (1, 2, 600_000)],
            call(TOOL, "rejected", at=now + timedelta(hours=1), metadata={"refused": 40, "refused_by": "fleet"}),
            call(TOOL, "rejected", at=now - timedelta(seconds=1), metadata={"refused": 4, "refused_by": "fleet"}),
        ],
    )
    opened = Circuit(
        circuit_id=TOOL, tool_name=TOOL, state="open", previous_state="closed", version=1, generation=1,
        changed_at=now - timedelta(minutes=1), cause=Cause(rule="consecutive_failures", value=5, threshold=5, sample=5),
    )  # fmt: skip
    await store_circuits(store, [opened])
    app = create_app(store, Settings(), registry=CollectorRegistry())

    async def send(path, **parameters):
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return (await http.get(path, params=parameters)).json()

    return send


async def test_the_page_now_counts_no_call_that_has_not_happened_yet(get):
    (tool,) = (await get("/v1/console/now"))["tools"]
    assert (tool["stats"]["calls"], tool["stats"]["refused"]) == (6, 4)
    assert tool["stats"]["p99_ms"] < 20
    assert (tool["wasted"]["calls"], tool["saved"]["refused"]) == (6, 4)
    assert (tool["blast"]["services"], tool["blast"]["top_services"]) == (1, ["agents"])


async def test_the_page_of_a_tool_lists_no_call_that_has_not_happened_yet(get):
    page = await get(f"/v1/console/tool/{TOOL}", hours=1)
    assert [(each["example"], each["count"]) for each in page["errors"]] == [("real", 6)]
    assert {each["error_message"] for each in page["recent"]} == {"real", None}
    assert {each["error_message"] for each in page["slow"]} == {"real"}
    assert page["waste"]["calls"] == 6
    assert [each["service"] for each in page["callers"]] == ["agents", None]


async def test_calls_of_the_future_are_found_by_naming_an_end(get):
    assert len((await get("/v1/calls"))["items"]) == 7
    assert len((await get("/v1/sessions/s/calls"))["items"]) == 6
    assert len((await get("/v1/calls", until="2099-12-31T00:00:00Z", since="2026-01-01T00:00:00Z"))["items"]) == 11
