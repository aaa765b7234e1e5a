"""The benchmark of false opens and of tools that hang says what happened."""

from __future__ import annotations

import gzip
import json

import pytest

from switchgear_schemas.policy import BreakerPolicy
from tests.bench import evidence_rules
from tests.bench.evidence_history import STEP_S, Call, agent_calls, busiest, shop_calls
from tests.bench.evidence_hung import GIVE_UP, NEEDED, Trial, breaker_opens, fleet_opens, local_opens, shown, trials
from tests.bench.evidence_rules import as_mcp_in_a_fleet, as_mcp_locally, folded, health_around, health_by_faults

FIVE = BreakerPolicy(consecutive_failures=5)
ANSWER = "no such city"
OUTAGE = "INTERNAL_ERROR"


def made(*errors, tool="city", process="p"):
    return [
        Call(place * STEP_S, tool, 0.0, process, process, f"s-{place}", f"{place}", error)
        for place, error in enumerate(errors)
    ]


def hanging(calls=100, slow_s=1.0, seconds=0.01):
    """Return a trial with a call every tenth of a second, of which all hang after the twentieth."""
    each = [Call(place / 10, "t", seconds, "p", f"w-{place}", "") for place in range(calls)]
    return Trial("t", tuple(each[:20]), tuple(each[20:]), slow_s)


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "calls.jsonl.gz"
    text = "meta=None content=[TextContent(type='text', text=\"it's down\", annotations=None)] isError=True"
    events = [
        {"tool_name": "a", "session_id": session, "status": status, "parameters_hash": "h", "error_message": message}
        for session in ("one", "two")
        for status, message in (("success", None), ("error", text), ("error", None))
    ]
    path.write_bytes(gzip.compress(b"\n".join(json.dumps(event).encode() for event in events)))
    return path


# -- histories ------------------------------------------------------------------------------------------------------------


def test_every_run_is_replayed_as_often_as_is_said_and_in_its_order(history):
    calls = agent_calls(history, times=3)
    runs = {}
    for call in calls:
        runs.setdefault(call.session, []).append(call.error)
    assert len(runs) == 6
    assert set(map(tuple, runs.values())) == {("", "it's down", "failed")}
    assert [call.began for call in calls] == [place * STEP_S for place in range(18)]
    assert agent_calls(history, times=3) == calls
    assert agent_calls(history, times=3, seed=1) != calls


def test_a_call_of_the_shop_began_before_it_ended(tmp_path):
    path = tmp_path / "shop.jsonl"
    event = {"tool_name": "a", "status": "success", "execution_time_ms": 500, "recorded_at": "2022-08-22T00:00:10Z"}
    path.write_text(json.dumps(event | {"user_id": "pod", "session_id": "trace"}))
    (call,) = shop_calls(path)
    assert (call.ended, call.ended - call.began) == (1_661_126_410.0, 0.5)
    assert (call.process, call.waits) == ("pod", "trace")


# -- opens ----------------------------------------------------------------------------------------------------------------


def test_five_failures_in_a_row_open_and_the_good_calls_behind_them_are_refused():
    found = folded(made(*[ANSWER] * 5, "", ""), lambda _: FIVE, fleet=False)
    assert (found.opens, found.refused_good) == ([4], 2)


def test_each_process_counts_alone_and_a_fleet_together():
    calls = [*made(ANSWER, ANSWER, ANSWER), *made(ANSWER, ANSWER, process="q")]
    half = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=5)
    assert folded(calls, lambda _: half, fleet=False).opens == []
    assert folded(calls, lambda _: half, fleet=True).opens == [4]


@pytest.mark.parametrize("replay", [as_mcp_locally, as_mcp_in_a_fleet])
def test_answers_of_a_tool_open_no_circuit_through_the_adapters(replay):
    assert replay(made(*[ANSWER] * 50)).opens == []


def test_a_session_that_repeats_its_mistake_is_counted_as_such():
    calls = [Call(place, "t", 0.0, "p", "p", "s", "the same", ANSWER if place < 5 else "") for place in range(7)]
    found = as_mcp_locally(calls)
    assert (found.opens, found.refused_good, found.refused_by_caller_errors) == ([], 2, 2)
    assert found.cells(lambda _: True)[-1] == "2 (2 to their session)"


# -- health ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("around", "expected"), [(ANSWER, True), ("", True), (OUTAGE, False)])
def test_a_tool_is_healthy_if_half_of_the_calls_around_say_so(around, expected):
    calls = made(*[around] * 4, OUTAGE, *[around] * 5)
    assert health_around(calls)(4) is expected


def test_the_shop_is_healthy_until_a_fault_and_again_some_time_after(tmp_path):
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps({"03": [{"inject_timestamp": "100", "inject_time": "t", "inject_type": "x"}]}))
    calls = [Call(at, "t", 0.0, "p", "p", "s") for at in (50, 99, 100, 250, 251)]
    assert [health_by_faults(calls, faults)(place) for place in range(5)] == [True, True, False, False, True]


# -- tools that hang ------------------------------------------------------------------------------------------------------


def test_a_breaker_opens_when_the_fifth_call_is_overdue():
    trial = hanging()
    opened = breaker_opens(trial)
    assert opened == pytest.approx(trial.hung[NEEDED - 1].began + 1.0)
    assert shown([(trial, opened)]) == ["1.40, 1.40", "1.00"]


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("opens", [local_opens, fleet_opens])
def test_guards_open_as_early_and_the_calls_before_end_as_recorded(opens, seconds):
    trial = hanging(seconds=seconds)
    assert opens(trial) == pytest.approx(breaker_opens(trial), abs=0.03)


def test_one_that_never_opens_is_said_to():
    trial = hanging()
    assert shown([(trial, None)]) == ["never", "never"]
    assert shown([(trial, None), (trial, trial.begins + 3)])[0] == "3.00, 3.00 (1 of 2 never)"


def test_who_waits_for_a_hung_call_makes_no_other():
    calls = [Call(float(place), "t", 0.0, "p", f"w-{place % 7}", "s") for place in range(400)]
    for trial in trials(calls, 10.0):
        assert len(trial.hung) == 7
        assert trial.hung[-1].began <= trial.begins + GIVE_UP * 10
    assert busiest(calls, 5) == ["t"]


# -- the table ------------------------------------------------------------------------------------------------------------


def test_both_commits_are_in_one_table(capsys):
    now = {"rules": {"a | b | c": ["0", "0", "1"]}, "hung": {"a | d": ["1.20, 1.50", "1.00"]}}
    before = {"rules": {"a | b | c": ["2", "1", "9"]}, "hung": {"a | d": ["never", "never"]}}
    evidence_rules.show(now, before)
    shown_rows = capsys.readouterr().out
    assert "| a | b | c | 2 → 0 | 1 → 0 | 9 → 1 |" in shown_rows
    assert "| a | d | never → 1.20, 1.50 | never → 1.00 |" in shown_rows


def test_a_tree_that_is_none_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="neither a work tree"):
        evidence_rules.main([str(tmp_path), "--before", str(tmp_path)])
