"""What the adapters of MCP share, without a framework."""

from __future__ import annotations

import pytest

from switchgear import CircuitOpenError, Rejection
from switchgear.integrations.mcp_results import refused_inside, report_tool_error, without_error
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.testing import InMemoryFleet

TOOL = "get_forecast"


def wrapped(text: str, cause: BaseException) -> Exception:
    error = RuntimeError(text)
    error.__cause__ = cause
    return error


def reported_class(report, **options) -> str | None:
    """Return the class of the event that a report makes."""
    fleet = InMemoryFleet()
    calls = ToolCalls(fleet.gear(**options))
    report(calls.begin(TOOL), calls)
    (event,) = fleet.events(TOOL)
    found: str | None = event.get("error_class")
    return found


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (wrapped("Error executing tool get_forecast", KeyError("city")), "unknown"),
        (wrapped("Error calling tool 'get_forecast': refused", ConnectionError("refused")), "transport"),
        (wrapped("Error executing tool a", wrapped("Error executing tool b", TimeoutError())), "timeout"),
        (wrapped("Error calling tool 'get_forecast'", ValueError("no such city")), "invalid_input"),
    ],
)
def test_exception_that_a_server_wrapped_has_the_class_of_the_original(error, expected):
    assert reported_class(lambda call, calls: report_tool_error(call, calls.gear, error)) == expected


class ToolError(Exception):
    """FastMCP's exception for the model."""

    __module__ = "fastmcp.exceptions"


@pytest.mark.parametrize(("globs", "expected"), [((), "tool"), (("get_*",), "server")])
def test_error_for_the_model_is_the_tools_unless_the_user_trusts_its_texts(globs, expected):
    def report(call, calls):
        report_tool_error(call, calls.gear, ToolError("503 Service Unavailable"))

    assert reported_class(report, outages_in_text=globs) == expected


def test_refusal_is_found_within_the_exceptions_of_mounted_servers():
    refused = CircuitOpenError(Rejection("database", "open", "fleet"))
    assert refused_inside(wrapped("outer", wrapped("inner", refused))) is refused
    assert refused_inside(wrapped("outer", ConnectionError())) is None


def test_refusal_without_the_error_keeps_the_rest():
    error = "no row of customer 1234"
    refused = Rejection(TOOL, "open", "fleet", retry_after_s=30, last_error=error, include_last_error=True)
    call = RefusedCall(refused, ends_run=True)
    shown = without_error(call)
    assert "1234" in call.text
    assert "1234" not in shown.text
    assert (shown.ends_run, shown.rejection.retry_after_s) == (True, 30)
