"""Which rule the text of a failure is judged by, and the words that clients of MCP say themselves."""

from __future__ import annotations

import pytest

from switchgear.classify.result import (
    CLIENT_ERRORS,
    classify_result,
    client_error,
    outage_in_text,
    refusal_in_text,
    text_rule,
)
from tests.support.table import table

REFUSAL = "The tool search is unavailable (circuit open). Its last error was: timed out. Do not call it again now."


@table(
    ("tool", "globs", "rule"),
    [
        ("mcp:weather:get", (), refusal_in_text),
        ("mcp:weather:get", ("mcp:weather:*",), outage_in_text),
        ("mcp:weather:get", ("mcp:db:*", "mcp:weather:get"), outage_in_text),
        ("mcp:weather:get", ("MCP:*", "get"), refusal_in_text),
        ("a[b]", ("a[b]",), outage_in_text),
    ],
)
def test_the_texts_of_a_tool_report_outages_if_a_glob_covers_its_whole_name(tool, globs, rule):
    assert text_rule(tool, globs) is rule


def test_a_refusal_is_found_by_both_rules_and_an_outage_by_one():
    assert (refusal_in_text(REFUSAL), outage_in_text(REFUSAL)) == ("policy", "policy")
    assert (refusal_in_text("connection refused"), outage_in_text("connection refused")) == (None, "transport")


def test_a_failed_result_that_quotes_a_refusal_is_policy_without_any_rule():
    found = classify_result({"isError": True, "content": [{"type": "text", "text": f"Error: {REFUSAL}"}]})
    assert found is not None
    assert found.error_class == "policy"


def test_a_refusal_beyond_the_examined_part_of_a_text_is_not_looked_for():
    assert refusal_in_text("x" * 2_000 + " " + REFUSAL) is None


@table("text", CLIENT_ERRORS)
def test_the_words_of_a_client_have_a_class_with_white_space_around_them_too(text):
    assert client_error(text) == client_error(f"\n {text}\r\n") == CLIENT_ERRORS[text]


@pytest.mark.parametrize("text", list(CLIENT_ERRORS))
def test_the_words_of_a_client_within_another_text_say_nothing(text):
    for other in (
        f"{text}.",
        f"Error: {text}",
        f"{text}\n{text}",
        f"<p>{text}</p>",
        text.upper(),
        text.replace(" ", "\u00a0"),
        text + "\x00",
        "\ud800" + text,
        text * 100_000,
    ):
        assert client_error(other) is None, other[:80]
    assert client_error("") is None
