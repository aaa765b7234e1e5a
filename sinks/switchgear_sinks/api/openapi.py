"""The OpenAPI document of the HTTP API, at ``/openapi.json``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_http.principal import Role
from switchgear_http.problem import SCHEMA as PROBLEM_SCHEMA
from switchgear_sinks.api.answers import json_answer
from switchgear_sinks.api.console.actions import CommandBody, ReasonBody
from switchgear_sinks.api.console.dead_letters import RetryBody
from switchgear_sinks.api.console.login import TokenBody
from switchgear_sinks.api.console.policies import PutBody, ReplayBody
from switchgear_sinks.api.retention import RetentionBody
from switchgear_sinks.api.sql import SqlBody

_PARAMETERS: Final[dict[str, tuple[str, str]]] = {
    "after": ("string", "The cursor `next` of the page before."),
    "class": ("string", "Only calls with this error class."),
    "component": ("string", "Only letters of the `worker` or the `sink`."),
    "field": ("string", "Only letters about this field."),
    "format": ("string", "`json`, or a file: `csv` or `parquet`."),
    "history": ("boolean", "1: the records, newest first."),
    "hours": ("number", "Hours to look back."),
    "limit": ("integer", "Most items of an answer."),
    "minutes": ("integer", "Whole minutes of the window, the present one included."),
    "new_rows_only": ("boolean", "1: leave the stored rows as they are."),
    "next": ("string", "Path of this server to go to after the login."),
    "reason": ("string", "Only letters whose reason has this text."),
    "service": ("string", "Only calls of this service."),
    "session": ("string", "Only calls of this session."),
    "since": ("string", "A time, in UTC unless it has an offset. By default 24 hours ago."),
    "status": ("string", "`success`, `error`, `timeout`, `cancelled` or `rejected`."),
    "subject": ("string", "Only actions on this circuit, policy or letter."),
    "tenant": ("string", "Only this tenant's calls."),
    "troubled": ("boolean", "1: only the tools in trouble, with the totals of all."),
    "text": ("string", "Only calls with this text in the error, the tool's name or the metadata."),
    "threshold_ms": ("number", "Only calls that took longer, in milliseconds."),
    "tool": ("string", "Only this tool."),
    "until": ("string", "A time, as `since`. By default now."),
    "user": ("string", "Only calls of this user."),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Args:
        path: As in OpenAPI.
        method: In lower case.
        summary: What it does.
        role: The role that it needs. None: no login, or any.
        query: Names of query parameters.
        body: The kind of the JSON body.
        answer: The media type of a success.
        status: The status of a success.
    """

    path: str
    method: str
    summary: str
    role: Role | None = Role.READ
    query: str = ""
    body: type[msgspec.Struct] | None = None
    answer: str = "application/json"
    status: int = 200


_TEXT: Final = "text/plain"
OPERATIONS: Final = (
    Operation("/v1/tools", "get", "List the health of every tool.", query="hours tenant"),
    Operation("/v1/tools/{name}", "get", "Show the health, statistics and last calls of a tool.", query="hours tenant"),
    Operation("/v1/circuits", "get", "List the state of every circuit.", query="history limit tool"),
    Operation("/v1/circuits/{circuit_id}", "get", "Show a circuit.", query="history limit"),
    Operation("/v1/circuits/{circuit_id}/history", "get", "List the records of a circuit, newest first.", query="limit"),
    Operation(
        "/v1/circuits/{circuit_id}/commands", "post", "Send an operator's command to a circuit.", Role.OPERATE, body=CommandBody
    ),
    Operation("/v1/slow", "get", "List the slowest calls.", query="threshold_ms limit tool hours tenant"),
    Operation("/v1/errors", "get", "List the newest errors.", query="tool limit tenant"),
    Operation("/v1/stored", "get", "Count the stored events."),
    Operation("/v1/emitters", "get", "List the processes whose clock is wrong.", query="hours tenant"),
    Operation(
        "/v1/calls",
        "get",
        "Search the stored calls, newest first.",
        query="tool status class user session service text since until after limit tenant",
    ),
    Operation("/v1/sessions/{session_id}/calls", "get", "List the calls of a session in their order.", query="after limit tenant"),
    Operation("/v1/console/now", "get", "Show every tool and family, those in trouble first.", query="minutes tenant troubled"),
    Operation(
        "/v1/console/live", "get", "Follow what changes, as server-sent events.", query="after", answer="text/event-stream"
    ),
    Operation("/v1/console/tool/{name}", "get", "Show everything about one tool.", query="hours tenant"),
    Operation("/v1/console/known", "get", "List the circuits and names that an operator can command."),
    Operation("/v1/console/timeline", "get", "List all transitions over the fleet's error rate.", query="hours tenant"),
    Operation("/v1/console/system", "get", "Show brokers, topics, groups, servers, storage and versions."),
    Operation("/v1/policies", "get", "List the rules of the policy file and what operators set."),
    Operation("/v1/policies/replay", "post", "Compare a proposed policy with the present one on stored calls.", body=ReplayBody),
    Operation("/v1/policies/{pattern}", "put", "Set values of the policy of a tool, a glob or a family.", Role.OPERATE, body=PutBody),
    Operation("/v1/audit", "get", "List what operators did, newest first.", query="after limit subject"),
    Operation("/v1/audit/{audit_id}/undo", "post", "Undo an action.", Role.OPERATE, body=ReasonBody),
    Operation("/v1/dead-letters", "get", "List dead letters, newest first.", query="reason tool component field after limit"),
    Operation("/v1/dead-letters/{identity}", "get", "Show a dead letter with its bytes."),
    Operation("/v1/dead-letters/{identity}/retry", "post", "Send a dead letter again, repaired if a value is given.", Role.OPERATE, body=RetryBody),
    Operation("/v1/sql", "post", "Run a read-only query.", query="format", body=SqlBody),
    Operation("/v1/retention", "get", "Show how long rows are kept."),
    Operation("/v1/retention", "put", "Change how long rows are kept.", Role.ADMIN, body=RetentionBody),
    Operation("/v1/retention", "delete", "Remove a rule of the retention.", Role.ADMIN, query="tenant new_rows_only"),
    Operation("/v1/session", "get", "Show who is logged in.", None),
    Operation("/v1/session", "post", "Log in with a token: the answer sets a cookie.", None, body=TokenBody),
    Operation("/v1/session", "delete", "Log out.", None, status=204),
    Operation("/login/oidc", "get", "Log in with the OpenID Connect issuer.", None, query="next", status=303),
    Operation("/login/oidc/callback", "get", "Take the issuer's answer.", None, status=303),
    Operation("/healthz", "get", "Answer while the process serves.", None),
    Operation("/readyz", "get", "Answer 200 when the API is ready, else 503.", None),
    Operation("/metrics", "get", "Show the metrics in Prometheus' text format.", answer=_TEXT),
    Operation("/openapi.json", "get", "Show this document."),
)  # fmt: skip
"""Every operation, in the order of the document."""


async def openapi(_request: Request) -> Response:
    """Answer ``GET /openapi.json``."""
    return json_answer(document())


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    bodies = [each.body for each in OPERATIONS if each.body is not None]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Switchgear",
            "version": _version(),
            "description": "The HTTP API of Switchgear. Times are ISO 8601 in UTC. Errors are problem details (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": dict(schemas) | {"Problem": PROBLEM_SCHEMA},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token, or a JWT of the issuer."},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "switchgear_session"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
            },
        },
    }


def _operation(each: Operation) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    in_query = [
        {"name": name, "in": "query", "schema": {"type": _PARAMETERS[name][0]}, "description": _PARAMETERS[name][1]}
        for name in each.query.split()
    ]
    problem = {
        "description": "What is wrong.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    success: dict[str, Any] = {"description": "Done."}
    if each.status == 200:
        success["content"] = {
            each.answer: {"schema": {"type": "object"} if each.answer.endswith("json") else {"type": "string"}}
        }
    found: dict[str, Any] = {
        "summary": each.summary,
        "operationId": f"{each.method}{re.sub(r'[^a-zA-Z0-9]+', '_', each.path).rstrip('_')}",
        "parameters": [*in_path, *in_query],
        "responses": {str(each.status): success, "default": problem},
        "security": [],
    }
    if each.role is not None:
        found["description"] = f"Needs the role `{each.role}`."
        with_cookie = ("cookie",) if each.method == "get" else ("cookie", "csrf")
        found["security"] = [{"bearer": []}, {name: [] for name in with_cookie}]
    if each.body is not None:
        schema = {"$ref": f"#/components/schemas/{each.body.__name__}"}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found  # fmt: skip


def _version() -> str:
    try:
        return version("switchgear")
    except PackageNotFoundError:
        return "unknown"
