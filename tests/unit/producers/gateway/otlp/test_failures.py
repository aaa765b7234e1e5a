from __future__ import annotations

from switchgear_gateway.otlp.failures import by_trusted_text, failure
from switchgear_schemas import ToolExecution
from tests.support.table import table


@table(
    ("error_type", "message", "error_class"),
    [
        ("ConnectionError", "", "transport"),
        ("builtins.TimeoutError", "", "timeout"),
        ("httpx.ConnectError", "All connection attempts failed", "transport"),
        ("httpx.ReadTimeout", "", "timeout"),
        ("ConnectTimeout", "", "timeout"),
        ("openai.APIConnectionError", "Connection error.", "transport"),
        ("requests.exceptions.ConnectionError", "", "transport"),
        ("langchain_core.tools.base.ToolException", "no such city", "tool"),
        ("langchain_core.tools.base.ToolException", "503 Service Unavailable", "tool"),
        ("TypeError", "fetch failed", "transport"),
        ("TypeError", "fetch failed: ECONNREFUSED", "invalid_input"),
        ("TypeError", "x is not a function", "invalid_input"),
        ("ValueError", "no such city", "invalid_input"),
        ("KeyError", "'days'", "unknown"),
        ("429", "", "rate_limited"),
        ("503", "", "server"),
        ("404", "", "invalid_input"),
        ("-32602", "Unknown tool", "invalid_input"),
        ("-32603", "Internal error", "server"),
        ("-32000", "Connection closed", "transport"),
        ("timeout", "", "timeout"),
        ("tool_error", "", "tool"),
        ("tool_error", "Error calling tool: connection refused", "tool"),
        ("TOOL_ERROR", "TOOL_ERROR", "tool"),
        ("MCP_TOOL_ERROR", "MCP_TOOL_ERROR", "tool"),
        ("HTTP_ERROR", "HTTP_ERROR", "tool"),
        ("SKILL_SCRIPT_EXECUTION_ERROR", "", "tool"),
        ("SERVICE_UNAVAILABLE", "", "server"),
        ("REQUEST_TIMEOUT", "", "timeout"),
        ("TOO_MANY_REQUESTS", "", "rate_limited"),
        ("UNAUTHORIZED", "", "auth"),
        ("NOT_FOUND", "", "invalid_input"),
        ("DEADLINE_EXCEEDED", "", "timeout"),
        ("UNAVAILABLE", "", "transport"),
        ("RESOURCE_EXHAUSTED", "", "rate_limited"),
        ("CANCELLED", "", "cancelled"),
        ("OK", "", "unknown"),
        ("UNKNOWN", "", "unknown"),
        ("ERR_NETWORK", "", "unknown"),
        ("EAI_AGAIN", "", "transport"),
        ("A" * 10_000 + "_B", "", "unknown"),
        ("\u00c9_\u00c9", "", "unknown"),
        ("cancelled", "", "cancelled"),
        ("asyncio.exceptions.CancelledError", "", "cancelled"),
        ("_OTHER", "", "unknown"),
        (None, "rate limit exceeded", "unknown"),
        (None, None, "unknown"),
        ("UnicodeDecodeError", "bad byte", "server"),
        (None, "ValueError('no such city')", "invalid_input"),
        (None, "httpx.ReadTimeout: ", "timeout"),
        (None, "TypeError: fetch failed", "transport"),
        (None, "Error: ValueError('no such city')\n Please fix your mistakes.", "invalid_input"),
        (None, "Error: " * 1_000, "unknown"),
        (None, "Error('" * 1_000, "unknown"),
        (None, "KeyError: 'days'", "unknown"),
        ("Exception", "ConnectError('no route')Traceback (most recent call last):\n  File", "transport"),
        ("Exception", "no such city", "unknown"),
        ("MyError", "ValueError('no such city')", "unknown"),
        ("KeyError", "ValueError('no such city')", "unknown"),
        ("ExceptionGroup", "several", "unknown"),
        ("not a type!", "", "unknown"),
        ("x" * 10_000, "", "unknown"),
    ],
)
def test_a_failure_has_the_class_that_a_guard_would_give_it(error_type, message, error_class):
    assert failure(error_type, message).error_class == error_class


@table(
    ("error_type", "message", "scope", "evidence"),
    [
        ("ConnectionError", "", "", "full"),
        ("KeyError", "'days'", "", "full"),
        ("my.WeatherError", "no such city", "", "full"),
        ("503", "", "", "full"),
        ("tool_error", "connection refused", "", "full"),
        (None, None, "", "status_only"),
        (None, "Error running tool (non-fatal): error details are redacted", "", "status_only"),
        (None, "no such city", "", "status_only"),
        ("_OTHER", "", "", "status_only"),
        ("Error", "Service Unavailable", "ai", "status_only"),
        ("Exception", "no such city", "langsmith", "status_only"),
        ("Exception", "ConnectionError('no route')", "langsmith", "full"),
        ("Exception", "MyError('no route')", "langsmith", "full"),
        ("Exception", "Error: x", "langsmith", "status_only"),
        (None, "ConnectionError('no route')", "my.library", "status_only"),
        (None, "KeyError: 'days'", "my.library", "status_only"),
        ("httpx.HTTPStatusError", "", "", "status_only"),
        ("AI_APICallError", "", "ai", "status_only"),
        ("botocore.exceptions.ClientError", "", "", "status_only"),
        ("urllib3.exceptions.HTTPError", "", "", "full"),
    ],
)
def test_a_source_that_hides_the_kind_of_error_says_so(error_type, message, scope, evidence):
    assert failure(error_type, message, scope=scope).evidence == evidence


def test_a_class_that_the_source_shows_in_another_way_is_no_hidden_one():
    assert failure(None, "exit 3", otherwise="tool").evidence == "full"


def test_a_text_that_the_user_trusts_hides_nothing():
    call = ToolExecution(
        tool_name="search",
        status="error",
        error_class="unknown",
        error_message="connection refused",
        evidence="status_only",
    )
    trusted = by_trusted_text(call)
    assert (trusted.error_class, trusted.evidence) == ("transport", "full")
    silent = call.model_copy(update={"error_message": "no such city"})
    assert by_trusted_text(silent) == silent


def test_a_refusal_by_another_guard_behind_the_tool_counts_nowhere():
    text = "The tool search is unavailable (circuit open). Do not call it again now."
    assert failure("ToolError", text).error_class == "policy"


def test_secrets_in_a_message_are_redacted_and_a_stack_trace_is_cut():
    found = failure("ValueError", "token=abcdef123456 is wrong\nTraceback (most recent call last):\n  File secret.py")
    assert "abcdef123456" not in found.message
    assert "secret.py" not in found.message


def test_the_type_that_a_message_quotes_is_the_type_of_the_error():
    found = failure("Exception", "ValueError('no such city')Traceback (most recent call last):\n  File secret.py")
    assert (found.error_type, found.message) == ("ValueError", "no such city")
