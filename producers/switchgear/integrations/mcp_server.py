"""Servers of the MCP Python SDK: ``guard_server(server, gear)``, for ``MCPServer`` and the low-level ``Server``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from mcp import MCPError
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolRequestParams, CallToolResult, InputRequiredResult, PaginatedRequestParams, TextContent

from switchgear import arguments
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

T = TypeVar("T")

_MOST_PAGES: Final = 100
"""The most pages of a list of tools to read."""
_GUARD: Final = "__switchgear__"
"""The attribute of a guarded server that holds its guard."""


def guard_server(server: T, gear: Switchgear, *, circuit_of: CircuitOf = None, terminal_after: int | None = None) -> T:
    """Guard every tool of a server, and decide which of them a client is offered.

    The methods ``call_tool`` and ``list_tools`` of an ``MCPServer`` are replaced, or the handlers of ``tools/call`` and
    ``tools/list`` of a low-level ``Server``. The SDK's middleware is not used: it is provisional in SDK 2.x, and it sees a tool's
    exceptions only as texts.

    Args:
        server: The server. A low-level one must have its handlers.
        gear: The client.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default they are the same.
        terminal_after: After this many refused calls of one client, answer with a protocol error, which clients raise and
            don't show to the model. None: never.

    Returns:
        The same server.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    calls = ToolCalls(gear, circuit_of=circuit_of, terminal_after=terminal_after)
    target: Any = server
    if hasattr(server, _GUARD):
        arguments.impossible("server", "a server that isn't guarded", server, "Guard it once.")
    if isinstance(server, MCPServer):
        guard: Any = _GuardedMCPServer(target, calls)
        target.call_tool, target.list_tools = guard.call_tool, guard.list_tools
    elif isinstance(server, Server):
        if server.get_request_handler("tools/call") is None:
            arguments.impossible("server", "a server with tools", server, "Give it on_call_tool first.")
        guard = _GuardedServer(target, calls)
        target.add_request_handler("tools/call", CallToolRequestParams, guard.on_call_tool)
        if guard.lists:
            target.add_request_handler("tools/list", PaginatedRequestParams, guard.on_list_tools)
    else:
        arguments.impossible("server", "an MCPServer or Server of the MCP SDK", server)
    setattr(target, _GUARD, guard)
    return server


class _Guarded:
    """Makes the calls of a server if its circuits permit them."""

    def __init__(self, calls: ToolCalls) -> None:
        self.calls = calls
        self._process = mint_metric_id()
        self.names: tuple[str, ...] = ()
        """The names of the tools that the server listed last."""

    async def make(
        self, name: str, given: Any, request: Any, function: Callable[[str], Awaitable[Any]], *, tool: object = None
    ) -> Any:
        """Call a tool by ``function``, which takes the name of the tool: the one that was asked for, or its fallback."""
        session_id = self._client(request)
        call = await self.calls.abegin(
            name,
            given=given or {},
            tool=tool,
            others=self.names,
            session_id=session_id,
            credential=_credential(request),
        )
        if isinstance(call, RefusedCall):
            return _refusal(call, ends_run=call.ends_run and session_id is not None)
        with call:
            try:
                result = await function(call.name)
            except Exception as error:
                refused = refused_inside(error)
                if refused is None:
                    report_tool_error(call, self.calls.gear, error)
                    raise
                call.failed(refused)
                inside = self.calls.refused(refused.rejection, name=call.name, session_id=session_id)
                return _refusal(inside, ends_run=inside.ends_run and session_id is not None)
            if isinstance(result, (CallToolResult, InputRequiredResult)):
                call.succeeded(result)
            else:  # an extension goes on with the call
                call.ignored()
            return result

    async def make_unknown(self, name: str, request: Any, function: Callable[[], Awaitable[Any]]) -> Any:
        """Let the server answer by ``function`` that it has no such tool, unless the client asks again and again."""
        session_id = self._client(request)
        refused = self.calls.unknown(name, session_id=session_id)
        if refused is not None:
            return _refusal(refused, ends_run=refused.ends_run and session_id is not None)
        try:
            result = await function()
        except Exception:
            self.calls.unknown_ended(name, session_id=session_id)
            raise
        self.calls.unknown_ended(name, session_id=session_id, found=not says_failed(result))
        return result

    def _client(self, request: Any) -> str | None:
        """Return an id of the client that stays the same from call to call, None if the protocol has none.

        Over stdio it is the process. Over HTTP it is the session, which the protocol of 2026-07-28 doesn't have.
        """
        http = getattr(request, "request", None)
        if http is None:
            return None if request is None else self._process
        found: str | None = http.headers.get("mcp-session-id")
        return found


class _GuardedMCPServer(_Guarded):
    """The methods of a guarded MCPServer. Its handlers call them, inside the interceptors of extensions."""

    def __init__(self, server: Any, calls: ToolCalls) -> None:
        super().__init__(calls)
        self._call_tool = server.call_tool
        self._list_tools = server.list_tools
        self._server = server

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Make a tool call if the circuit permits it."""
        tool = self._tool(name)
        if tool is None or not self.names:
            self.names = tuple(each.name for each in await self._list_tools())
        request = getattr(context, "request_context", None)
        if tool is None and name not in self.names:
            return await self.make_unknown(name, request, lambda: self._call_tool(name, arguments, context))
        return await self.make(
            name, arguments, request, lambda other: self._call_tool(other, arguments, context), tool=tool
        )

    async def list_tools(self) -> Any:
        """List the tools that all clients are offered. The SDK doesn't say which client asks."""
        found = await self._list_tools()
        self.names = tuple(tool.name for tool in found)
        kept = {tool.name for tool in self.calls.available([self._tool(tool.name) or tool for tool in found])}
        return [tool for tool in found if tool.name in kept]

    def _tool(self, name: str) -> Any:
        """Return the tool with its function. The tool manager is private in SDK 2.3; without it, tools have no functions."""
        manager = getattr(self._server, "_tool_manager", None)
        return None if manager is None else manager.get_tool(name)


class _GuardedServer(_Guarded):
    """The handlers of a guarded low-level server."""

    def __init__(self, server: Any, calls: ToolCalls) -> None:
        super().__init__(calls)
        self._call_tool = server.get_request_handler("tools/call").handler
        lists = server.get_request_handler("tools/list")
        self._list_tools = None if lists is None else lists.handler

    @property
    def lists(self) -> bool:
        """Whether the server lists its tools."""
        return self._list_tools is not None

    async def on_call_tool(self, ctx: Any, params: Any) -> Any:
        """Make a tool call if the circuit permits it."""
        if params.name not in self.names and not await self._exists(ctx, params.name):
            return await self.make_unknown(params.name, ctx, lambda: self._call_tool(ctx, params))

        async def call(name: str) -> Any:
            asked = params if name == params.name else params.model_copy(update={"name": name})
            return await self._call_tool(ctx, asked)

        return await self.make(params.name, params.arguments, ctx, call)

    async def on_list_tools(self, ctx: Any, params: Any) -> Any:
        """List the tools that the client is offered."""
        assert self._list_tools is not None
        found = await self._list_tools(ctx, params)
        return found.model_copy(update={"tools": self.calls.available(found.tools, session_id=self._client(ctx))})

    async def _exists(self, ctx: Any, name: str) -> bool:
        """List all tools. Return whether there may be one with this name."""
        if self._list_tools is None:
            return True
        found: list[str] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await self._list_tools(ctx, PaginatedRequestParams(cursor=cursor))
            found += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        self.names = tuple(found)
        return name in found or cursor is not None


def _credential(request: Any) -> str | None:
    """Return what the client signs in with over HTTP, None if nothing is known."""
    http = getattr(request, "request", None)
    if http is None:
        return None
    found: str | None = http.headers.get("authorization") or http.headers.get("x-api-key")
    return found


def _refusal(call: RefusedCall, *, ends_run: bool) -> CallToolResult:
    """Return the refusal as a failed result, which the model reads.

    It doesn't have the text of the last error: the SDK shows no client the text of an unexpected exception.

    Raises:
        MCPError: The run ends. Clients raise it instead of showing it to the model.
    """
    call = without_error(call)
    meta = {META_KEY: call.tool_failure}
    if ends_run:
        raise MCPError(RUN_ENDS, last_words(call), meta)
    return CallToolResult(content=[TextContent(type="text", text=call.text)], is_error=True, _meta=meta)
