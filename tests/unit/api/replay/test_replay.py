import gzip
import json

import pytest

from switchgear.policies import PolicySet
from switchgear_api.replay import UndatedCallError, replay
from switchgear_api.replay.history import read_history
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy

THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=10)


def at(seconds):
    return f"2026-01-01T00:{int(seconds // 60):02d}:{seconds % 60:06.3f}Z"


def call(seconds, status="success", tool="t", ms=0.0, **more):
    return {"tool_name": tool, "status": status, "recorded_at": at(seconds), "execution_time_ms": ms, **more}


def run(tmp_path, calls, policy=THREE, *, compare=None, stamp_s=None):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in calls))
    sets = {"p": lambda _: policy}
    if compare is not None:
        sets["q"] = lambda _: compare
    return list(replay(read_history(path), sets, stamp_s=stamp_s))


FAILING = [call(second, "error", input_tokens=100, ms=500.0) for second in range(10)]


def test_transitions_come_as_they_happen_and_the_summary_last(tmp_path):
    *transitions, last = run(tmp_path, [*FAILING, call(20)])
    assert [(one["at"], one["previous"], one["state"]) for one in transitions] == [
        ("2026-01-01T00:00:02.000Z", "closed", "open"),
        ("2026-01-01T00:00:20.000Z", "open", "half_open"),
        ("2026-01-01T00:00:20.000Z", "half_open", "closed"),
    ]
    assert transitions[0]["cause"] == {
        "rule": "consecutive_failures",
        "value": 3.0,
        "threshold": 3.0,
        "sample": 3,
        "failed": 3,
    }
    assert last["summary"]["opens"] == last["summary"]["closes"] == last["summary"]["probes"] == 1


def test_refused_calls_that_had_failed_are_waste_avoided(tmp_path):
    summary = run(tmp_path, FAILING)[-1]["summary"]
    refused = summary["refused"]
    assert (summary["calls"], summary["failed"]) == (10, 10)
    assert (refused["calls"], refused["failed"], refused["succeeded"]) == (7, 7, 0)
    assert (refused["seconds_avoided"], refused["tokens_avoided"]) == (3.5, 700)


def test_refused_calls_that_had_succeeded_are_refused_wrongly(tmp_path):
    calls = [*FAILING[:3], call(4), call(5), call(6, "cancelled")]
    refused = run(tmp_path, calls)[-1]["summary"]["refused"]
    assert (refused["calls"], refused["succeeded"], refused["ignored"], refused["tokens_avoided"]) == (3, 2, 1, 0)


def test_a_call_is_decided_on_when_it_began(tmp_path):
    began_before = call(5, "success", ms=4000.0)
    began_after = call(6, "success", ms=1000.0)
    refused = run(tmp_path, [*FAILING[:3], began_before, began_after])[-1]["summary"]["refused"]
    assert refused["calls"] == 1


def test_a_failed_probe_is_a_reopening(tmp_path):
    summary = run(tmp_path, [*FAILING[:3], call(15, "error"), call(16, "error")])[-1]["summary"]
    assert (summary["opens"], summary["reopens"], summary["probes"], summary["refused"]["calls"]) == (1, 1, 1, 1)


def test_metrics_only_refuses_nothing_and_says_what_it_would_have_done(tmp_path):
    policy = THREE.model_copy(update={"mode": "metrics_only"})
    transition, last = run(tmp_path, FAILING, policy)
    assert transition["cause"]["reason"] == "would have opened"
    assert (last["summary"]["would_open"], last["summary"]["opens"], last["summary"]["refused"]["calls"]) == (1, 0, 0)


def test_two_policies_are_set_side_by_side(tmp_path):
    lines = run(tmp_path, FAILING, THREE, compare=LOCAL_DEFAULT)
    summaries = {line["policy"]: line["summary"] for line in lines if "summary" in line}
    assert summaries["p"]["refused"]["calls"] == 7
    assert summaries["q"]["refused"]["calls"] == 5


def test_calls_that_were_never_made_are_only_counted(tmp_path):
    summary = run(tmp_path, [call(0, "rejected")] * 5)[-1]["summary"]
    assert (summary["never_made"], summary["calls"], summary["opens"]) == (5, 0, 0)


def test_reports_of_overdue_calls_are_no_calls(tmp_path):
    summary = run(tmp_path, [call(0, "overdue")] * 5)[-1]["summary"]
    assert (summary["never_made"], summary["calls"], summary["opens"]) == (0, 0, 0)


def test_a_history_without_instants_is_refused_or_stamped(tmp_path):
    undated = [{"tool_name": "t", "status": "error"}] * 3
    with pytest.raises(UndatedCallError, match=r"Line 1 has no recorded_at\. Give --stamp SECONDS"):
        run(tmp_path, undated)
    transition, last = run(tmp_path, undated, stamp_s=0.5)
    assert transition["at"] == "2000-01-01T00:00:01.000Z"
    assert last["summary"]["stamped"] == 3


def test_lines_that_are_not_calls_are_counted_and_skipped(tmp_path):
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"status": "error"}\nnonsense\n' + json.dumps(call(1)).encode()))
    (last,) = replay(read_history(path), {"p": lambda _: THREE})
    assert (last["summary"]["lines"], last["summary"]["invalid"], last["summary"]["calls"]) == (3, 2, 1)


def test_scopes_have_circuits_of_their_own(tmp_path):
    policy = THREE.model_copy(update={"scope": "session"})
    calls = [call(second, "error", session_id=f"s{second % 3}") for second in range(6)]
    assert run(tmp_path, calls, policy)[-1]["summary"]["circuits"] == 3
    assert run(tmp_path, calls, policy)[-1]["summary"]["opens"] == 0


@pytest.mark.slow
def test_the_same_history_and_policy_give_the_same_bytes(tmp_path):
    calls = [call(n / 7, ["success", "error", "timeout"][n * n % 3], f"t{n % 5}", n % 900) for n in range(3000)]
    policies = PolicySet({"jitter": 0.3, "cusum": {"broken_failure_rate": 0.9}, "wait_duration_in_open_state_s": 5})
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in calls))
    first, second = (
        [json.dumps(line) for line in replay(read_history(path), {"p": policies.effective})] for _ in range(2)
    )
    assert first == second
    assert len(first) > 10


def test_a_replay_refuses_the_calls_that_a_ramp_would_have_refused(tmp_path):
    ramp = THREE.model_copy(update={"recovery_ramp": (0.1, 0.5), "recovery_ramp_step_s": 10})
    recovered = [call(20 + second / 10) for second in range(400)]
    *transitions, last = run(tmp_path, [*FAILING[:3], *recovered], ramp)
    assert [(one["at"][17:], one["cause"]["rule"], one["cause"].get("value")) for one in transitions[2:]] == [
        ("20.000Z", "probe_succeeded", 1.0),
        ("30.000Z", "recovery_ramp", 0.5),
        ("40.000Z", "recovery_ramp", 1.0),
    ]
    refused = last["summary"]["refused"]
    assert (refused["calls"], refused["succeeded"]) == (90 + 50, 140), "of 99 calls at 10 % and 100 at 50 %"


def test_a_replay_knows_the_ramp_of_a_tool_that_asked_to_wait(tmp_path):
    ramp = THREE.model_copy(update={"retry_after_ramp": (0.1,)})
    refused = []
    for wait in ({"retry_after_s": 5.0}, {}):
        failing = [call(second, "error", error_class="rate_limited", **wait) for second in range(3)]
        *_, last = run(tmp_path, [*failing, *(call(20 + second / 10) for second in range(101))], ramp)
        refused.append(last["summary"]["refused"]["succeeded"])
    assert refused == [90, 0]


def test_an_open_during_a_ramp_counts_as_a_reopen(tmp_path):
    ramp = THREE.model_copy(update={"recovery_ramp": (0.9,), "recovery_ramp_step_s": 100})
    *_, last = run(tmp_path, [*FAILING[:3], call(20), *(call(21 + second, "error") for second in range(5))], ramp)
    assert (last["summary"]["opens"], last["summary"]["reopens"], last["summary"]["closes"]) == (1, 1, 1)
