"""Clients of the MCP Python SDK: ``guard_session(session, gear, server="weather")``."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from mcp import Client, ClientSession, MCPError
from mcp.client import UnexpectedClaimedResult
from mcp.types import CONNECTION_CLOSED, CallToolResult, InputRequiredResult, TextContent

from switchgear import arguments
from switchgear.classify.result import says_failed
from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.integrations.mcp_results import RUN_ENDS, last_words
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.prompts import CircuitOf
from switchgear_schemas.ids import mint_metric_id

T = TypeVar("T")

_MOST_TOOLS: Final = 10_000
"""The most names of tools to remember."""
_CLOSED: Final = "Connection closed"
"""The SDK's text for a connection that has ended."""
_GUARD: Final = "__switchgear__"
"""The attribute of a guarded session that holds its guard."""


def guard_session(
    session: T,
    gear: Switchgear,
    *,
    server: str,
    circuit_of: CircuitOf = None,
    terminal_after: int | None = None,
) -> T:
    """Guard every tool of a server, and decide which of them are in its lists.

    The session's methods ``call_tool`` and ``list_tools`` are replaced, so everything that uses the session is guarded.

    Args:
        session: A connected ``Client``, or a ``ClientSession``.
        gear: The Switchgear client.
        server: The server's name for the circuits.
        circuit_of: The circuit's name for a tool's name, as a dict or a function. By default ``mcp:<server>:<tool>``.
        terminal_after: After this many refused calls of this session, raise ``MCPError`` in place of a result. None: never.

    Returns:
        The same session.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    arguments.tool_name(f"mcp:{server}:tool")
    outer: Any = session
    inner: Any = session
    if isinstance(session, Client):
        try:
            inner = session.session
        except RuntimeError:
            hint = 'Write "async with client:" first.'
            arguments.impossible("session", "a connected client", session, hint)
    elif not isinstance(session, ClientSession):
        arguments.impossible("session", "a Client or ClientSession of the MCP SDK", session)
    if hasattr(inner, _GUARD):
        arguments.impossible("session", "a session that isn't guarded", session, "Guard it once.")
    calls = ToolCalls(
        gear,
        circuit_of=(lambda name: f"mcp:{server}:{name}") if circuit_of is None else circuit_of,
        terminal_after=terminal_after,
    )
    guard = _SessionGuard(calls, call_tool=inner.call_tool, list_tools=outer.list_tools)
    setattr(inner, _GUARD, guard)
    inner.call_tool = guard.call_tool  # a Client makes its calls through its session, one for each round of input
    outer.list_tools = guard.list_tools  # a Client keeps lists, so the filter is in front of it
    return session


class _SessionGuard:
    """The methods of a guarded session."""

    def __init__(self, calls: ToolCalls, *, call_tool: Any, list_tools: Any) -> None:
        self._calls = calls
        self._call_tool = call_tool
        self._list_tools = list_tools
        self._names: tuple[str, ...] = ()
        """The names of the server's tools."""
        self._complete = False
        """All pages of the list were seen."""
        self._credential = mint_metric_id()
        """Stands for what the connection signs in with: other connections of the process are other people's, maybe."""
        self._begun = 0
        self._begun_before_loss = 0
        """How many calls had begun when a call failed because the connection ended. That call counted for all of them."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any) -> Any:
        """Make a tool call if the circuit permits it."""
        if self._complete and name not in self._names:
            return await self._unknown(name, arguments, *args, **options)
        goes_on = options.get("input_responses") is not None or options.get("request_state") is not None
        call = await self._calls.abegin(
            name,
            given=arguments or {},
            others=() if goes_on else self._names,  # another tool doesn't know what this one asked
            credential=self._credential,
        )
        if isinstance(call, RefusedCall):
            return _refusal(call)
        self._begun += 1
        number = self._begun
        with call:
            try:
                result = await self._call_tool(call.name, arguments, *args, **options)
            except MCPError as error:
                if _ends_connection(error):
                    if number <= self._begun_before_loss:
                        call.ignored(error)
                    else:
                        self._begun_before_loss = self._begun
                raise
            except UnexpectedClaimedResult:  # an extension goes on with the call
                call.ignored()
                raise
            if isinstance(result, (CallToolResult, InputRequiredResult)):
                call.succeeded(result)
            else:
                call.ignored()
            return result

    async def _unknown(self, name: str, arguments: dict[str, Any] | None, *args: Any, **options: Any) -> Any:
        """Let the server answer that it has no such tool, unless the agent asks again and again."""
        refused = self._calls.unknown(name)
        if refused is not None:
            return _refusal(refused)
        try:
            result = await self._call_tool(name, arguments, *args, **options)
        except MCPError as error:
            if not _ends_connection(error):
                self._calls.unknown_ended(name)
            raise
        self._calls.unknown_ended(name, found=not says_failed(result))
        return result

    async def list_tools(self, **options: Any) -> Any:
        """List the tools to offer. For ``new_sessions``, the connection is the session."""
        found = await self._list_tools(**options)
        kept = self._names if len(self._names) < _MOST_TOOLS else ()
        self._names = tuple(dict.fromkeys([*kept, *(tool.name for tool in found.tools)]))
        self._complete = self._complete or found.next_cursor is None
        return found.model_copy(update={"tools": self._calls.available(found.tools, session_id=self._credential)})


def _ends_connection(error: MCPError) -> bool:
    """Return whether the connection ended, with all calls in it. Servers use the code for errors of their own too."""
    return error.code == CONNECTION_CLOSED and error.message == _CLOSED


def _refusal(call: RefusedCall) -> CallToolResult:
    """Return the refusal as a failed result, which the model reads.

    Raises:
        MCPError: The run ends.
    """
    meta = {META_KEY: call.tool_failure}
    if call.ends_run:
        raise MCPError(RUN_ENDS, last_words(call), meta)
    return CallToolResult(content=[TextContent(type="text", text=call.text)], is_error=True, _meta=meta)
