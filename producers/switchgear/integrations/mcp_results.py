"""What the adapters of MCP share: how a tool's exception reaches them, and how a server ends a run. It imports no framework."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec

from switchgear.guard.calls import Calling
from switchgear.guard.rejections import CircuitOpenError
from switchgear.integrations.tool_calls import RefusedCall, StartedCall

RUN_ENDS: Final = -32050
"""The JSON-RPC code of the error that ends a run. MCP has no code for it; servers choose one from -32000 to -32099."""
_MOST_CAUSES: Final = 5
"""How many exceptions within one another to look at: one for each server that is mounted in another one."""
_WRAPS: Final = ("Error calling tool ", "Error executing tool ")
"""How a ToolError begins that FastMCP or the SDK has made of a tool's exception."""


def refused_inside(error: BaseException) -> CircuitOpenError | None:
    """Return the refusal of a guard within the tool, which the server wraps into its own exception."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None or isinstance(cause, CircuitOpenError):
            return cause
        cause = cause.__cause__
    return None


def report_tool_error(call: StartedCall, gear: Calling, error: BaseException) -> None:
    """Report the ToolError that a server has made of a tool's exception, or that the tool raised for the model.

    The original exception decides. An error for the model is judged as the failed result that clients get.
    """
    for _ in range(_MOST_CAUSES):
        if error.__cause__ is None or not str(error).startswith(_WRAPS):
            break
        error = error.__cause__
    found = gear.classify_error(call.circuit, error)
    if found.error_class == "tool":
        found = gear.classify_result(call.circuit, {"content": str(error), "isError": True}) or found
    call.failed(error, failure=found)


def without_error(call: RefusedCall) -> RefusedCall:
    """Return the refusal without the text of the tool's last error, for servers that don't show exceptions to clients."""
    return dataclasses.replace(call, rejection=msgspec.structs.replace(call.rejection, last_error=None))


def last_words(call: RefusedCall) -> str:
    """Return the message of the error that ends a run."""
    return f"The run ends: too many tool calls were refused. {call.text}"
