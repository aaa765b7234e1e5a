"""``/openapi.json``: every route of the gateway as an OpenAPI 3.1 document."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchgear_gateway.parts import Documented, Part
from switchgear_http import problem
from switchgear_schemas import ToolExecution

VERSION: Final = "1.0.0"
_OF_COMPONENTS: Final = "#/components/schemas/{model}"


class OpenApiRoute:
    """The route.

    Args:
        parts: The parts of the gateway, without this one.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self.routes = [Route("/openapi.json", self.get, methods=["GET"])]

    @property
    def openapi(self) -> Mapping[str, Mapping[str, Any]]:
        """OpenAPI's path items."""
        content = {"application/json": {"schema": {"type": "object"}}}
        return {
            "/openapi.json": {
                "get": {"summary": "This document.", "responses": {"200": {"description": "It.", "content": content}}}
            }
        }

    async def get(self, _request: Request) -> Response:
        """Answer with the document."""
        return Response(self._encoded, media_type="application/json")

    @cached_property
    def _encoded(self) -> bytes:
        return json.dumps(document([*self._parts, self])).encode()


def document(parts: Iterable[Part]) -> dict[str, Any]:
    """Return the document. A route that its part does not describe has the first line of its handler's docstring."""
    paths: dict[str, dict[str, Any]] = {}
    for part in parts:
        described = part.openapi if isinstance(part, Documented) else {}
        for route in part.routes:
            item = {method: dict(operation) for method, operation in described.get(route.path, {}).items()}
            for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"}):
                operation = item.setdefault(method.lower(), {"summary": _summary(route), "responses": {}})
                operation["responses"] = dict(operation["responses"]) or {"200": {"description": "The answer."}}
                operation["responses"].setdefault("default", {"$ref": "#/components/responses/Problem"})
            paths[route.path] = paths.get(route.path, {}) | item
    schema = ToolExecution.model_json_schema(mode="validation", ref_template=_OF_COMPONENTS)
    nested = schema.pop("$defs", {})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Switchgear gateway",
            "version": VERSION,
            "description": "Send executions, follow circuits and decide about calls, without Kafka.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {"ToolExecution": schema, "Problem": problem.SCHEMA} | nested,
            "responses": {
                "Problem": {
                    "description": "The request was refused.",
                    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _summary(route: Route) -> str:
    return (inspect.getdoc(route.endpoint) or route.path).partition("\n")[0]
