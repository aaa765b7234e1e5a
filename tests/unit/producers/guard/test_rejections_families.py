"""The refusal of a tool whose server is down says so, and for how long no tool of it must be called."""

from __future__ import annotations

import pickle

from switchgear import CircuitOpenError, Rejection

DOWN = Rejection(
    "mcp:github:search",
    "open",
    "fleet",
    "failure_rate 0.9 reached 0.5",
    12.2,
    "ConnectionError: connection refused",
    family="mcp:github",
    last_error_class="transport",
)


def test_the_text_says_that_the_server_is_down_and_not_to_call_any_tool_of_it():
    assert DOWN.text == (
        "The tool mcp:github:search is unavailable: its server mcp:github does not answer (circuit open). "
        "The rule failure_rate opened it (0.9 reached 0.5). Its last error was a broken connection. "
        "Do not call any tool of mcp:github within the next 13 s."
    )


def test_the_text_names_a_fallback():
    refused = Rejection("mcp:a:x", "half_open", "local", fallback="mcp:b:x", family="mcp:a")
    assert refused.text == (
        "The tool mcp:a:x is unavailable: its server mcp:a does not answer (circuit half open). "
        "Do not call any tool of mcp:a now. Use mcp:b:x instead."
    )


def test_the_text_of_a_server_that_an_operator_has_forced_open_does_not_say_that_it_does_not_answer():
    refused = Rejection("mcp:a:x", "forced_open", "fleet", family="mcp:a")
    assert refused.text == (
        "The tool mcp:a:x is unavailable: its server mcp:a must not be used (circuit forced open). "
        "Do not call any tool of mcp:a now."
    )


def test_the_text_is_one_line_of_bounded_length_whatever_the_name_of_the_server():
    text = Rejection("t", "open", "fleet", family="mcp:\n" + "x" * 10_000).text
    assert "\n" not in text
    assert len(text) < 1_000


def test_the_message_for_operators_names_the_server():
    error = DOWN.error()
    assert error.family == "mcp:github"
    assert error.message == (
        "The fleet circuit of mcp:github, the server of mcp:github:search, is open (failure_rate 0.9 reached 0.5); "
        "try again in 12.2 s."
    )


def test_an_exception_without_a_server_has_none():
    assert CircuitOpenError("down").family is None
    assert pickle.loads(pickle.dumps(DOWN.error())).family == "mcp:github"
