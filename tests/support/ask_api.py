"""A scripted HTTP API, and a client of MCP for the server that asks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import httpx
from mcp.client.client import Client

from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.callers import Callers
from switchgear_mcp.ask.commands import Commands
from switchgear_mcp.ask.confirmations import Confirmations
from switchgear_mcp.ask.questions import Questions
from switchgear_mcp.ask.server import AskServer
from switchgear_mcp.ask.watches import Watches

NOW = datetime(2026, 11, 29, 10, 2, 30, tzinfo=UTC)
READ, OPERATE = "read", "operate"
TOKENS = {
    "sgt_read": {"name": "reader", "roles": ["read"], "tenant": None, "tools": []},
    "sgt_operate": {"name": "operator", "roles": ["operate", "read"], "tenant": None, "tools": []},
    "sgt_other": {"name": "other", "roles": ["operate", "read"], "tenant": None, "tools": []},
    "sgt_acme": {"name": "acme", "roles": ["operate", "read"], "tenant": "acme", "tools": []},
    "sgt_some": {"name": "some", "roles": ["read"], "tenant": None, "tools": ["search"]},
}


def circuit(tool: str = "search", state: str = "open", **fields: Any) -> dict[str, Any]:
    """Return a circuit as the API answers it."""
    found = {
        "circuit_id": tool,
        "tool_name": tool,
        "scope": "tool",
        "family": None,
        "state": state,
        "version": 3,
        "generation": 2,
        "changed_at": "2026-11-29T10:02:11Z",
        "open_until": "2026-11-29T10:03:11Z" if state == "open" else None,
        "cause": {"rule": "consecutive_failures", "value": 5, "threshold": 5},
        "last_error": "HTTP 503",
        "last_error_class": "server",
        "fallback": [],
        "opens": 1,
    }
    return found | fields


def server_circuit(server: str, state: str = "open", **fields: Any) -> dict[str, Any]:
    """Return the circuit of a server."""
    return circuit(server, state, circuit_id=f"{server}|family", scope="family", **fields)


class ScriptedApi:
    """Answers as the API does.

    Args:
        circuits: Its circuits.
        tokens: Its tokens; empty: it has none.
    """

    def __init__(self, *circuits: Mapping[str, Any], tokens: Mapping[str, Any] | None = None) -> None:
        self.circuits = list(circuits)
        self.tokens = TOKENS if tokens is None else tokens
        self.tools: dict[str, dict[str, Any]] = {}
        self.errors: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.local: list[dict[str, Any]] = []
        self.problems: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.commands: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[], httpx.Response]] = {}
        """Other answers, by the beginning of the path."""
        self.pause_s = 0.0

    def api(self, **limits: Any) -> Api:
        """Return a client."""
        return Api("http://api.test", transport=httpx.MockTransport(self._answer), **limits)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        path, given = unquote(request.url.raw_path.decode().partition("?")[0]), dict(request.url.params)
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        self.asked.append((request.method, path, token))
        await asyncio.sleep(self.pause_s)
        for begin, answer in self.answers.items():
            if path.startswith(begin):
                return answer()
        if self.tokens and token not in self.tokens:
            return httpx.Response(401, json={"detail": "This server needs a token.", "status": 401})
        who = self.tokens[token] if self.tokens and token else {"name": "local", "roles": ["admin", "operate", "read"]}
        return self._of(request, path, given, who)

    def _of(
        self, request: httpx.Request, path: str, given: Mapping[str, str], who: Mapping[str, Any]
    ) -> httpx.Response:
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "/v1/session": lambda: dict(who),
            "/v1/circuits": lambda: self._circuits(given),
            "/v1/errors": lambda: {"errors": self.errors[: int(given["limit"])]},
            "/v1/calls": lambda: {"items": self.calls, "next": None},
        }
        if path in answers:
            return httpx.Response(200, json=answers[path]())
        if path.endswith("/commands"):
            return self._command(path.removeprefix("/v1/circuits/").removesuffix("/commands"), request, who)
        known = self.tools.get(path.removeprefix("/v1/tools/"))
        return httpx.Response(200, json=known) if known else httpx.Response(404, json={"detail": "No tool."})

    def _circuits(self, given: Mapping[str, str]) -> dict[str, Any]:
        found = [each for each in self.circuits if given.get("tool") in {None, each["tool_name"]}]
        if given.get("refusing"):
            found = [each for each in found if each["state"] in {"open", "forced_open", "half_open"}]
        circuits = {each["circuit_id"]: each for each in found}
        return {"circuits": circuits, "problems": self.problems, "local_circuits": self.local}

    def _command(self, circuit_id: str, request: httpx.Request, who: Mapping[str, Any]) -> httpx.Response:
        if "operate" not in who["roles"]:
            return httpx.Response(403, json={"detail": "This needs the role operate."})
        body = json.loads(request.content)
        found = next((each for each in self.circuits if each["circuit_id"] == circuit_id), {"state": "closed"})
        if body.pop("dry_run", False):
            return httpx.Response(200, json={"before": {"state": found["state"]}, "after": {"state": "forced_open"}})
        self.commands.append({"circuit": circuit_id, "by": who["name"], **body})
        answer = {"outcome": "applied", "audit_id": "0192-1", "after": {"state": "forced_open"}}
        return httpx.Response(200, json=answer)


def tool_page(name: str, **report: Any) -> dict[str, Any]:
    """Return the API's page of a tool."""
    numbers = {
        "tool_name": name,
        "status": "healthy",
        "success_rate": 0.9912,
        "total_calls": 812,
        "caller_errors": 0,
        "cancelled_calls": 0,
        "rejected_calls": 3,
        "p50_latency_ms": 120.4,
        "p95_latency_ms": 1480.0,
    }
    return {
        "report": numbers | report,
        "stats": {"total_cost_usd": 0.406},
        "last_success": "2026-11-29T10:02:11Z",
        "last_failure": "2026-11-28T23:59:59Z",
    }


def ask_server(
    scripted: ScriptedApi, token: str | None = "sgt_read", *, every_s: float = 0.01, **limits: Any
) -> AskServer:
    """Return a server that asks with a token."""
    api = scripted.api(**limits)
    questions = Questions(api, "mcp:*:*", lambda: NOW)
    return AskServer(
        api,
        Callers(api),
        questions,
        lambda _ctx: token,
        commands=Commands(api, Confirmations()),
        watches=Watches(questions.down, every_s=every_s),
    )


def connected(server: AskServer, mode: str = "2026-07-28", **how: Any) -> Client:
    """Return the official client, in this process. ``legacy`` is the protocol with a handshake."""
    return Client(server.mcp, mode=mode, **how)


async def ask(server: AskServer, name: str, **arguments: Any) -> Any:
    """Call a tool, and return its result."""
    async with connected(server) as client:
        return await client.call_tool(name, arguments)


def text_of(result: Any) -> str:
    """Return the text of a result."""
    (content,) = result.content
    return str(content.text)
