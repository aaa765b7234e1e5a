"""FastMCP servers and proxies: ``mcp.add_middleware(SwitchgearMiddleware(gear))``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.server.dependencies import get_http_headers
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import ToolResult
from mcp import MCPError

from switchgear.classify.result import says_failed
from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.integrations.mcp_results import (
    RUN_ENDS,
    last_words,
    refused_inside,
    report_tool_error,
    without_error,
)
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.prompts import CircuitOf
from switchgear_schemas.ids import mint_metric_id

_MOST_TOOLS: Final = 10_000
"""The most tools to remember. A server may make new ones for each client."""

_COUNTED: Final = "__switchgear_counted__"
"""The attribute of an exception that the circuit of a tool has counted. FastMCP's search for tools calls them through a tool."""


def _credential() -> str | None:
    """Return what the client signs in with over HTTP, None if nothing is known."""
    headers: dict[str, str] = get_http_headers(include={"authorization"})
    return headers.get("authorization") or headers.get("x-api-key")


class SwitchgearMiddleware(Middleware):
    """Guard every tool of a server, and decide which of them a client is offered.

    Args:
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: After this many refused calls of one client, answer with a protocol error, which clients raise and
            don't show to the model. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(self, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> None:
        self.calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
        self._tools: dict[str, Any] = {}
        """Tools by name: those that were listed or called."""
        self._names: tuple[str, ...] = ()
        self._listed = False
        self._process = mint_metric_id()

    async def on_call_tool(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a tool call if the circuit permits it."""
        message, server = context.message, context.fastmcp_context
        if message.name not in self._tools and not await self._exists(server, message.name):
            return await self._unknown(context, call_next)
        session_id = self._client(server)
        call = await self.calls.abegin(
            message.name,
            given=message.arguments or {},
            tool=self._tools.get(message.name),
            others=self._names,
            session_id=session_id,
            credential=_credential(),
            attempt_of=message,
        )
        if isinstance(call, RefusedCall):
            return self._refusal(call, server, session_id)
        if call.is_fallback:
            context = context.copy(message=message.model_copy(update={"name": call.name}))
        with call:
            try:
                result = await call_next(context)
            except NotFoundError:  # the tool is gone, or hidden from this client
                call.released()
                raise
            except ToolError as error:
                refused = refused_inside(error)
                if refused is None:
                    if hasattr(error, _COUNTED):  # of another tool, which this one called through the server
                        call.ignored(error)
                    else:
                        report_tool_error(call, self.calls.gear, error)
                        setattr(error, _COUNTED, True)
                    raise
                call.failed(refused)
                inside = self.calls.refused(refused.rejection, name=call.name, session_id=session_id)
                return self._refusal(inside, server, session_id)
            if isinstance(result, ToolResult):  # a request for input too
                call.succeeded(result)
            else:  # an extension has made a task of the call, which ends later
                call.ignored()
            return result

    async def _unknown(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Let the server answer that there is no such tool, unless the client asks again and again."""
        name, session_id = context.message.name, self._client(context.fastmcp_context)
        refused = self.calls.unknown(name, session_id=session_id)
        if refused is not None:
            return self._refusal(refused, context.fastmcp_context, session_id)
        try:
            result = await call_next(context)
        except (NotFoundError, ToolError):
            self.calls.unknown_ended(name, session_id=session_id)
            raise
        self.calls.unknown_ended(name, session_id=session_id, found=not says_failed(result))
        return result

    async def on_list_tools(self, context: Any, call_next: Callable[[Any], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
        """List the tools that the client is offered."""
        tools = await call_next(context)
        self._remember(tools)
        return self.calls.available(tools, session_id=self._client(context.fastmcp_context))

    async def _exists(self, context: Any, name: str) -> bool:
        """Look for a tool that was neither listed nor called before. Return whether there may be one."""
        if context is None:
            return True
        server = context.fastmcp
        try:
            if not self._listed:  # once, so that a call can go to its fallback before a client has listed the tools
                self._listed = True
                self._remember(await server.list_tools(run_middleware=False))
            if name in self._tools or self.calls.gear.is_open(self.calls.circuit(name)):
                return True  # an open circuit is of a tool. Don't ask a proxied server that may be down
            tool = await server.get_tool(name)
        except Exception:  # noqa: BLE001 - the call itself shows what is wrong, behind the circuit
            return True
        self._remember([] if tool is None else [tool])
        return tool is not None

    def _remember(self, tools: Sequence[Any]) -> None:
        new = {tool.name: tool for tool in tools}
        kept = self._tools if len(self._tools) < _MOST_TOOLS else {}
        self._listed, self._tools = True, {**kept, **new}
        if len(kept) != len(self._tools):
            self._names = tuple(self._tools)

    def _client(self, server: Any) -> str | None:
        """Return an id of the client that stays the same from call to call, None if the protocol has none.

        Since the protocol of 2026-07-28 a session lasts for one request. ``_session_scope_key`` is private in FastMCP 4.2, which
        limits its own state by it: the session in older protocols, else the signed-in user or, without HTTP, the process.
        """
        scope = getattr(server, "_session_scope_key", None)
        if scope is None:
            return None
        try:
            found: str | None = scope()
        except RuntimeError:  # called by the server's own code, outside of a request
            return None
        return self._process if found == "process" else found

    def _refusal(self, call: RefusedCall, context: Any, session_id: str | None) -> ToolResult:
        """Return the refusal as a failed result, which the model reads.

        Raises:
            MCPError: The run ends. Clients raise it instead of showing it to the model.
        """
        # FastMCP 4.2 keeps the option mask_error_details under a private name.
        if getattr(getattr(context, "fastmcp", None), "_mask_error_details", False):
            call = without_error(call)
        meta = {META_KEY: call.tool_failure}
        if call.ends_run and session_id is not None:
            raise MCPError(RUN_ENDS, last_words(call), meta)
        return ToolResult(call.text, meta=meta, is_error=True)
