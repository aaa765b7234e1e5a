"""Which calls of a history a search uses."""

from __future__ import annotations

import json

import pytest

from switchgear_api.replay import UndatedCallError
from switchgear_api.replay.history import parse_line
from switchgear_cli.tune.calls import TuneError, read_calls


def lines(*events):
    return [parse_line(number, json.dumps(event).encode()) for number, event in enumerate(events, 1)]


def event(tool="mcp:a", status="success", at="2026-03-01T12:00:00Z", **fields):
    return {"tool_name": tool, "status": status, "recorded_at": at, **fields}


def test_only_calls_that_were_made_of_tools_that_the_glob_matches_are_used():
    log = read_calls(
        lines(event(), event("llm:b"), event(status="rejected"), {"no": "execution"}, event("mcp:c", "error")), "mcp:*"
    )
    assert log.tools == ["mcp:a", "mcp:c"]
    assert (len(log.calls), log.never_made, log.other_tools, log.invalid) == (2, 1, 1, 1)


def test_a_report_of_an_overdue_call_is_no_call():
    log = read_calls(lines(event(status="overdue", overdue_ms=6_000), event()), "mcp:a")
    assert (len(log.calls), log.never_made, log.invalid) == (1, 0, 0)


def test_calls_come_in_the_order_in_which_they_ended():
    log = read_calls(lines(event(at="2026-03-01T12:00:09Z"), event(at="2026-03-01T12:00:01Z")), "mcp:a")
    assert log.calls[0].ended_at < log.calls[1].ended_at


def test_a_call_knows_when_it_began_and_what_tokens_it_spent():
    fields = {"execution_time_ms": 1500, "input_tokens": 5, "output_tokens": 6, "cache_creation_tokens": 7}
    (call,) = read_calls(lines(event(**fields)), "mcp:a").calls
    assert call.ended_at - call.began_at == pytest.approx(1.5)
    assert call.tokens == 18


def test_calls_without_an_instant_are_laid_apart_by_stamp_and_refused_without_it():
    undated = lines({"tool_name": "a", "status": "success"}, {"tool_name": "a", "status": "error"})
    log = read_calls(undated, "a", stamp_s=2)
    assert log.calls[1].ended_at - log.calls[0].ended_at == 2
    assert log.stamped == 2
    with pytest.raises(UndatedCallError, match=r"Line 1 has no recorded_at. Give --stamp SECONDS"):
        read_calls(undated, "a")


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([], "The history has no calls. Choose another span"),
        ([event("other")], "None of the history's 1 calls is of a tool that mcp:[*] matches. Check the name"),
        ([{"no": "execution"}], "The history has 1 lines, but none of them is an execution"),
    ],
)
def test_a_history_without_a_call_of_the_tools_says_what_it_has_instead(history, message):
    with pytest.raises(TuneError, match=message):
        read_calls(lines(*history), "mcp:*")
