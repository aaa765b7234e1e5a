"""The gateway's OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from switchgear_http.openapi import OpenApi
from switchgear_http.principal import Role
from switchgear_http.routing import Route
from switchgear_schemas import ToolExecution

VERSION: Final = "1.0.0"


def openapi_of(routes: Iterable[Route]) -> OpenApi:
    """Return the document with its route."""
    schema = ToolExecution.model_json_schema(mode="validation", ref_template="#/components/schemas/{model}")
    nested = schema.pop("$defs", {})
    return OpenApi(
        {
            "title": "Switchgear gateway",
            "version": VERSION,
            "description": "Send executions, follow circuits and decide about calls, without Kafka.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        (Role.READ, Role.EMIT),
        routes,
        schemes={"token": {"type": "http", "scheme": "bearer"}},
        security=lambda _route: [{"token": []}, {}],  # without tokens a gateway serves its own machine
        schemas={"ToolExecution": schema} | nested,
    )
