"""What the adapters of MCP share, without a framework."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from switchgear import CircuitOpenError, GuardOptions, Rejection
from switchgear.integrations.mcp_results import refused_inside, report_result, report_tool_error, without_error
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.testing import InMemoryFleet
from tests.support.table import table

TOOL = "get_forecast"


class CallToolResult(SimpleNamespace):
    """A result of the SDK."""


def failed(text: str) -> CallToolResult:
    return CallToolResult(is_error=True, content=[SimpleNamespace(text=text)])


def wrapped(text: str, cause: BaseException) -> Exception:
    error = RuntimeError(text)
    error.__cause__ = cause
    return error


def reported_class(report, **defaults) -> str | None:
    """Return the class of the event that a report makes."""
    fleet = InMemoryFleet()
    calls = ToolCalls(fleet.gear(defaults=GuardOptions(**defaults)))
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
    assert reported_class(lambda call, calls: report_tool_error(call, calls.calling, error)) == expected


@table(
    ("text", "expected"),
    [
        ("Error executing tool get_forecast", "unknown"),
        ("Error calling tool 'get_forecast'", "unknown"),
        ("Error executing tool get_forecast: no such city", "tool"),
        ("Error executing tool get_forecast: 503 Service Unavailable", "server"),
        ("no such city", "tool"),
    ],
)
def test_failed_result_without_a_reason_counts_as_an_unknown_exception(text, expected):
    assert reported_class(lambda call, calls: report_result(call, calls, failed(text))) == expected


def test_users_rule_for_results_decides_before_the_text():
    def report(call, calls):
        report_result(call, calls, failed("Error executing tool get_forecast"))

    assert reported_class(report, classify_result=lambda _: "auth") == "auth"


def test_refusal_is_found_within_the_exceptions_of_mounted_servers():
    refused = CircuitOpenError(Rejection("database", "open", "fleet"))
    assert refused_inside(wrapped("outer", wrapped("inner", refused))) is refused
    assert refused_inside(wrapped("outer", ConnectionError())) is None


def test_refusal_without_the_error_keeps_the_rest():
    call = RefusedCall(
        Rejection(TOOL, "open", "fleet", retry_after_s=30, last_error="no row of customer 1234"), ends_run=True
    )
    shown = without_error(call)
    assert "1234" in call.text
    assert "1234" not in shown.text
    assert (shown.ends_run, shown.rejection.retry_after_s) == (True, 30)
