"""A failure whose source hides the kind of error counts half, and only in the rate of failures."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.snapshot import SnapshotError
from switchgear_schemas.explain import explain
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from tests.support.table import table

OK = Result(reporter="a")
BAD = Result(ResultKind.FAILURE, reporter="a")
HIDDEN = Result(ResultKind.FAILURE, reporter="a", weak=True)
EVIDENCE = 16
"""Where a snapshot has the evidence."""


def breaker_after(policy, *results, every=0.1):
    breaker = Breaker("c", policy, 0.0)
    for number, result in enumerate(results):
        breaker.record(number * every, result)
    return breaker


def test_a_tool_that_answers_four_of_ten_calls_opens_nothing_by_hidden_failures():
    assert breaker_after(FLEET_DEFAULT, *[OK, HIDDEN, HIDDEN, OK, HIDDEN] * 40).state == "closed"
    assert breaker_after(FLEET_DEFAULT, *[OK, BAD, BAD, OK, BAD] * 40).state == "open"


def test_a_tool_whose_every_call_fails_opens_by_hidden_failures_alone_and_says_that_they_count_half():
    breaker = breaker_after(FLEET_DEFAULT, *[HIDDEN] * 19)
    assert breaker.state == "closed"
    moved = breaker.record(2.0, HIDDEN)
    assert moved is not None
    assert (moved.cause.rule, moved.cause.value, moved.cause.failed) == ("failure_rate", 0.5, 20)
    assert explain(msgspec.structs.asdict(moved.cause)) == (
        "failures of sources that hide the kind of error count half: 20 of 20 calls within 60 s failed "
        "(50 %; the limit is 50 %); reported by 1 process"
    )


def test_hidden_failures_and_visible_ones_add_up():
    policy = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=10)
    assert breaker_after(policy, *[HIDDEN] * 4, *[BAD] * 2, *[OK] * 4).state == "closed"
    assert breaker_after(policy, *[HIDDEN] * 4, *[BAD] * 3, *[OK] * 3).state == "open"


def test_a_hidden_failure_neither_begins_nor_extends_nor_ends_a_run():
    policy = BreakerPolicy(consecutive_failures=3)
    assert breaker_after(policy, *[HIDDEN] * 100).state == "closed"
    assert breaker_after(policy, BAD, BAD, *[HIDDEN] * 10).state == "closed"
    assert breaker_after(policy, BAD, BAD, *[HIDDEN] * 10, BAD).state == "open"


def test_hidden_failures_do_not_move_the_cusum_of_a_process():
    assert breaker_after(LOCAL_DEFAULT, *[HIDDEN, HIDDEN, HIDDEN, HIDDEN, OK] * 60).state == "closed"


def test_hidden_failures_are_counted_as_failures_of_the_window_but_not_by_the_rule_of_a_number():
    breaker = breaker_after(BreakerPolicy(failure_count=3), *[HIDDEN] * 50, BAD, BAD)
    assert (breaker.state, breaker.counts(6.0).failed) == ("closed", 52)
    assert breaker.record(6.0, BAD) is not None


@table(
    "window",
    [
        {"sliding_window_size": 10},
        {"sliding_window_size": 10, "sliding_window_panes": 1},
        {"sliding_window_type": "count", "sliding_window_size": 10},
    ],
)
def test_hidden_failures_that_left_the_window_count_no_more(window):
    policy = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=5, **window)
    breaker = breaker_after(policy, *[HIDDEN] * 4)
    for number in range(10):
        breaker.record(30.0 + number / 10, OK)
    for number in range(3):
        breaker.record(40.0 + number / 10, OK)
    moves = [breaker.record(50.0 + number / 10, BAD) for number in range(5)]
    assert moves[-1] is not None
    assert moves[-1].cause.reason is None


def test_a_hidden_result_decides_no_probe():
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=10)
    for result in (HIDDEN, msgspec.structs.replace(OK, weak=True)):
        breaker = breaker_after(policy, BAD)
        assert breaker.record_event(20.0, result, None, None, started_at=15.0) is None
        assert breaker.state == "open"
        assert breaker.record_event(21.0, OK, None, None, started_at=15.0) is not None


def test_a_hidden_failure_does_not_end_a_recovery():
    policy = BreakerPolicy(consecutive_failures=1, recovery_ramp=(0.1, 0.5), recovery_ramp_step_s=60)
    recovering = [breaker_after(policy, BAD) for _ in range(2)]
    for breaker, result in zip(recovering, (HIDDEN, BAD), strict=True):
        breaker.record_event(62.0, OK, None, None, started_at=61.5)
        for number in range(40):
            breaker.record_event(63.0 + number / 100, result, None, None, started_at=63.0)
    assert [breaker.state for breaker in recovering] == ["closed", "open"]


@table("window", [{}, {"sliding_window_type": "count", "sliding_window_size": 30}])
def test_a_snapshot_keeps_which_failures_count_half(window):
    policy = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=20, **window)
    one = breaker_after(policy, *[HIDDEN] * 15, *[BAD] * 4, OK, OK, OK)
    other = Breaker.restore(one.snapshot(), policy)
    assert other.snapshot() == one.snapshot()
    for number in range(30):
        moves = [breaker.record(3.0 + number / 10, HIDDEN) for breaker in (one, other)]
        assert (moves[0] is None) == (moves[1] is None)
    assert one.snapshot() == other.snapshot()


@table(
    "window",
    [{}, {"sliding_window_panes": 1}, {"sliding_window_type": "count", "sliding_window_size": 20}],
)
def test_a_snapshot_of_a_window_that_hidden_failures_have_left_can_be_read(window):
    policy = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=20, **window)
    breaker = breaker_after(policy, *[HIDDEN] * 10)
    for number in range(20):
        breaker.record(500.0 + number, OK)
        assert Breaker.restore(breaker.snapshot(), policy).snapshot() == breaker.snapshot()


def test_a_snapshot_of_an_older_release_has_no_hidden_failures():
    policy = BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=4)
    fields = msgspec.msgpack.decode(breaker_after(policy, *[HIDDEN] * 3).snapshot())
    older = msgspec.msgpack.encode([*fields[:EVIDENCE], fields[EVIDENCE][:20], *fields[EVIDENCE + 1 :]])
    assert Breaker.restore(older, policy).record(1.0, OK) is not None


def test_a_snapshot_with_more_hidden_failures_than_failures_is_refused():
    fields = msgspec.msgpack.decode(breaker_after(FLEET_DEFAULT, HIDDEN).snapshot())
    fields[EVIDENCE][-2] = [[0, 2]]
    with pytest.raises(SnapshotError, match="count half"):
        Breaker.restore(msgspec.msgpack.encode(fields), FLEET_DEFAULT)


@given(st.lists(st.tuples(st.sampled_from([OK, BAD]), st.booleans()), max_size=80), st.sampled_from([0.05, 2.0]))
def test_hiding_the_kind_of_errors_never_opens_a_circuit_earlier(calls, every):
    policy = BreakerPolicy(
        consecutive_failures=7, failure_rate_threshold=0.5, minimum_number_of_calls=10, failure_count=20
    )
    full, hidden = Breaker("c", policy, 0.0), Breaker("c", policy, 0.0)
    for number, (result, hides) in enumerate(calls):
        full.record(number * every, result)
        hidden.record(number * every, msgspec.structs.replace(result, weak=hides))
        if full.state == "open":
            return
        assert hidden.state == "closed"
