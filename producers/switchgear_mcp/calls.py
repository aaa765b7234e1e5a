"""Tool calls through circuits: the decision before a call, and the report of its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from switchgear.classify.tool_failure import META_KEY
from switchgear.client import Switchgear
from switchgear.integrations.mcp_results import RUN_ENDS, last_words
from switchgear.integrations.tool_calls import RefusedCall, StartedCall, ToolCalls
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_mcp import message as rpc
from switchgear_mcp.errors import ServerDownError, ServerError, ServerSilentError, ServerStatusError
from switchgear_mcp.message import Message, Raw
from switchgear_mcp.names import Names
from switchgear_mcp.protocol import VERSION_KEY

_MOST_TOOLS: Final = 10_000
_MOST_READ: Final = 4 * 1_048_576
"""The most bytes of a failed result that are read to find its class."""
_TIMED_OUT: Final = ("timed out", "timeout")
"""In the reason of a cancellation, if the client's own limit was over. The SDKs in Python and TypeScript write the first."""


class Calls:
    """The tool calls of all clients.

    Args:
        gear: The client of the fleet.
        names: The names of servers and tools.
        terminal_after: After this many refused calls of one client, answer with a protocol error. None: never.
    """

    def __init__(self, gear: Switchgear, names: Names, *, terminal_after: int | None = None) -> None:
        self.gear, self.names = gear, names
        self.calls = ToolCalls(gear, circuit_of=names.circuit, terminal_after=terminal_after)
        self._known = BoundedDict[str, None](_MOST_TOOLS)
        self._others: tuple[str, ...] = ()

    # -- lists of tools -----------------------------------------------------------------------------------------------

    def remember(self, names: list[str]) -> None:
        """Note tools that exist, by the names that clients know."""
        new = [name for name in names if name not in self._known]
        for name in new:
            self._known[name] = None
        if new:
            self._others = tuple(self._known)

    def knows(self, name: str) -> bool:
        """Return whether there is such a tool, as far as that is known without a list."""
        return name in self._known or self.gear.is_open(self.names.circuit(name))

    def available(self, names: list[str], session_id: str | None) -> frozenset[str]:
        """Return the tools that a client is offered."""
        return frozenset(self.calls.available(names, session_id=session_id))

    # -- a call -------------------------------------------------------------------------------------------------------

    async def begin(
        self,
        name: str,
        params: dict[str, Raw],
        *,
        may_use: Callable[[str], bool] | None,
        session_id: str | None,
        credential: str | None,
    ) -> StartedCall | RefusedCall:
        """Ask whether a call may be made now, or one of the tool's fallbacks.

        Args:
            name: The tool, as clients know it.
            params: The parameters of the request.
            may_use: Whether the client may use a tool. None: it may use all.
            session_id: Names the client for the limits of callers.
            credential: What the client signs in with.
        """
        goes_on = "inputResponses" in params or "requestState" in params
        given = rpc.plain(params.get("arguments"))
        others = self._others if may_use is None else tuple(filter(may_use, self._others))
        return await self.calls.abegin(
            name,
            given=given if isinstance(given, dict) else {},
            others=() if goes_on else others,  # another tool doesn't know what this one asked
            session_id=session_id,
            credential=credential,
        )

    def ended(self, call: StartedCall, end: Message | Exception) -> None:
        """Report the end of a call."""
        if isinstance(end, Exception):
            call.failed(end)
        elif "error" in end.fields:
            call.failed(server_error(end.fields["error"]))
        else:
            _report_result(call, end.fields.get("result"))

    def cancelled(self, call: StartedCall, reason: object = None) -> None:
        """Report a call that the client has cancelled. If its own limit was over, the tool was too slow."""
        if isinstance(reason, str) and any(words in reason.lower() for words in _TIMED_OUT):
            call.failed(reason[:200], failure="timeout")
        else:
            call.failed(asyncio.CancelledError())

    def refusal(self, asked: Message, refused: RefusedCall, session_id: str | None) -> Message:
        """Return the answer to a call that must not be made."""
        meta = {META_KEY: refused.tool_failure}
        if refused.ends_run and session_id is not None:
            return asked.error(RUN_ENDS, last_words(refused), meta)
        return failed_result(asked, refused.text, meta)


def failed_result(asked: Message, text: str, meta: Any = None) -> Message:
    """Return a failed result, which the model reads."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if meta is not None:
        result["_meta"] = meta
    if VERSION_KEY in asked.meta:
        result["resultType"] = "complete"
    return asked.answer(result)


def no_answer(asked: Message, error: Exception) -> Message:
    """Return the error of JSON-RPC for a request that a server didn't answer."""
    code = rpc.INTERNAL_ERROR
    if isinstance(error, ServerSilentError):
        code = rpc.REQUEST_TIMEOUT
    elif isinstance(error, ServerDownError):
        code = rpc.CONNECTION_CLOSED
    return _with_challenge(asked.error(code, str(error)), error)


def failed_call(asked: Message, error: Exception) -> Message:
    """Return the failed result of a call that a server didn't answer."""
    return _with_challenge(failed_result(asked, str(error)), error)


def _with_challenge(answer: Message, error: Exception) -> Message:
    """Let a client over HTTP log in, if that is what the server wants."""
    if isinstance(error, ServerStatusError) and error.challenge is not None:
        answer.refusal = error.status_code, error.challenge
    return answer


def server_error(error: Raw) -> ServerError:
    """Return an error of JSON-RPC as an exception."""
    found = rpc.members(error)
    code, text = rpc.plain(found.get("code")), rpc.plain(found.get("message"))
    number = code if isinstance(code, int) else rpc.INTERNAL_ERROR
    return ServerError(str(text or ""), number, rpc.plain(found.get("data")))


def says_failed(end: Message) -> bool:
    """Return whether an answer to a call is an error, or a result that says so."""
    return "error" in end.fields or _flag(rpc.members(end.fields.get("result")))


def _flag(result: dict[str, Raw]) -> bool:
    return "isError" in result and rpc.plain(result["isError"]) is True


def _report_result(call: StartedCall, result: Raw | None) -> None:
    found = rpc.members(result)
    if "content" in found and not _flag(found):
        call.succeeded()
    elif result is not None and "content" in found:
        large = len(bytes(result)) > _MOST_READ
        call.succeeded({"content": [], "isError": True} if large else rpc.plain(result))
    elif rpc.plain(found.get("resultType")) in {None, "complete"} and "task" not in found:
        call.succeeded()
    else:  # it asks for input, or a task or an extension goes on with the call
        call.ignored()
