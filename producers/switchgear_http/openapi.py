"""The OpenAPI 3.1 document of a server, from its routes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_http.principal import Role
from switchgear_http.problem import SCHEMA, encoded
from switchgear_http.routing import Content, Reply, Route

Schemas = Mapping[type[Any], Any]
_REF: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "description": "What is wrong.",
    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
}


class OpenApi:
    """``GET /openapi.json``.

    Args:
        info: Title, version and description.
        role: Who may read it.
        routes: The other routes.
        schemes: OpenAPI's security schemes by name.
        security: Returns the security of a route that needs a login.
        schemas: More schemas by name, which the routes refer to.
    """

    def __init__(
        self,
        info: Mapping[str, Any],
        role: Role | tuple[Role, ...],
        routes: Iterable[Route],
        *,
        schemes: Mapping[str, Any],
        security: Callable[[Route], list[dict[str, Any]]],
        schemas: Mapping[str, Any] | None = None,
    ) -> None:
        self.route = Route("GET", "/openapi.json", role, self._get, "Show this document.")
        self._info = info
        self._routes = (*routes, self.route)
        self._schemes = schemes
        self._security = security
        self._schemas = schemas or {}

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document."""
        types = sorted({each for route in self._routes for each in _types(route)}, key=lambda each: each.__name__)
        found, components = msgspec.json.schema_components(types, ref_template=_REF)
        schemas: Schemas = dict(zip(types, found, strict=True))
        paths: dict[str, dict[str, Any]] = {}
        for route in self._routes:
            operation = _operation(route, schemas) | {"security": [] if route.role is None else self._security(route)}
            paths.setdefault(_plain(route.path), {})[route.method.lower()] = operation
        return {
            "openapi": "3.1.0",
            "info": dict(self._info),
            "paths": paths,
            "components": {
                "schemas": components | {"Problem": SCHEMA} | dict(self._schemas),
                "responses": {"Problem": _PROBLEM},
                "securitySchemes": dict(self._schemes),
            },
        }

    @cached_property
    def _encoded(self) -> bytes:
        return encoded(self.document)

    async def _get(self, _request: Request) -> Response:
        return Response(self._encoded, media_type="application/json")


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    plain = _plain(route.path)
    needs = f"Needs the role {' or '.join(f'`{role}`' for role in route.roles)}." if route.roles else ""
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", plain)
    ]
    others = [
        {
            "name": each.name,
            "in": each.place,
            "description": each.description,
            "schema": {"type": each.kind} | ({"enum": list(each.values)} if each.values else {}),
        }
        for each in route.parameters
    ]
    found: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-zA-Z0-9]+', '_', plain).rstrip('_')}",
        "parameters": [*in_path, *others],
        "responses": {str(status): _response(answer, schemas) for status, answer in route.answers.items()}
        | {"default": {"$ref": "#/components/responses/Problem"}},
    }
    described = " ".join(filter(None, (route.description, needs)))
    if described:
        found["description"] = described
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": _content(route.body, schemas)}
    return found


def _response(answer: Reply, schemas: Schemas) -> dict[str, Any]:
    described = {"description": answer.description}
    return described if answer.content is None else described | {"content": _content(answer.content, schemas)}


def _content(content: Content | type[Any] | tuple[type[Any], ...], schemas: Schemas) -> Content:
    if isinstance(content, Mapping):
        return content
    found = [schemas[each] for each in (content if isinstance(content, tuple) else (content,))]
    return {"application/json": {"schema": found[0] if len(found) == 1 else {"anyOf": found}}}


def _types(route: Route) -> set[type[Any]]:
    contents = [route.body, *(answer.content for answer in route.answers.values())]
    given = [each if isinstance(each, tuple) else (each,) for each in contents]
    return {each for kinds in given for each in kinds if isinstance(each, type)}


def _plain(path: str) -> str:
    """Return a path as OpenAPI writes it."""
    return re.sub(r"{(\w+):\w+}", r"{\1}", path)
