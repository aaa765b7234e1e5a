"""A circuit that closed after probes lets a growing share of the calls through, and opens again at little cost."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear.breaker.ramp import AFTER_RETRY_AFTER
from switchgear.breaker.snapshot import SnapshotError, decode, encode
from switchgear_schemas import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy

OK = Result()
BAD = Result(ResultKind.FAILURE)
SHARES = (0.1, 0.25, 0.5)
RULES = {
    "consecutive_failures": 3,
    "wait_duration_in_open_state_s": 60,
    "backoff_multiplier": 2,
    "recovery_ramp": SHARES,
    "recovery_ramp_step_s": 10,
}
POLICY = BreakerPolicy(**RULES)
CLOSED_AT = 1_060.0


def recovering(policy=POLICY):
    """Return a circuit that opened at 1000 and closed at 1060 by a probe."""
    breaker = Breaker("search", policy, 0.0)
    for _ in range(3):
        breaker.record(1_000.0, BAD)
    probe = breaker.try_acquire(CLOSED_AT)
    assert isinstance(probe, BreakerPermit)
    assert probe.probe
    moved = breaker.record(CLOSED_AT, OK, probe)
    assert moved is not None
    assert (moved.previous, moved.state) == ("half_open", "closed")
    return breaker


def admitted(breaker, now, calls):
    """Return how many of ``calls`` at ``now`` are permitted, and report each as a success."""
    permits = [breaker.try_acquire(now) for _ in range(calls)]
    for permit in permits:
        if isinstance(permit, BreakerPermit):
            breaker.record(now, OK, permit)
    return sum(isinstance(permit, BreakerPermit) for permit in permits)


def test_admits_exactly_the_share_of_each_step_and_then_every_call():
    breaker = recovering()
    found = [admitted(breaker, CLOSED_AT + second, 1_000) for second in (0, 9.9, 10, 20, 29.9, 30)]
    assert found == [100, 100, 250, 500, 500, 1_000]
    assert breaker.state == "closed"
    assert breaker.admitted_share == 1
    assert breaker.quiet is not None, "the shortcut is back"


def test_the_first_step_begins_with_the_close_and_each_next_one_is_a_transition():
    breaker = recovering()
    assert breaker.admitted_share == 0.1
    steps = [step for second in range(40) if (step := breaker.advance(CLOSED_AT + second)) is not None]
    assert [(step.at, step.cause.rule, step.cause.value) for step in steps] == [
        (1_070, "recovery_ramp", 0.25),
        (1_080, "recovery_ramp", 0.5),
        (1_090, "recovery_ramp", 1.0),
    ]
    assert {(step.previous, step.state, step.generation) for step in steps} == {("closed", "closed", 3)}


def test_several_steps_that_are_due_are_one_transition_to_the_latest():
    breaker = recovering()
    step = breaker.advance(CLOSED_AT + 25)
    assert step is not None
    assert (step.at, step.cause.value, breaker.admitted_share) == (1_080, 0.5, 0.5)
    assert breaker.advance(CLOSED_AT + 25) is None


def test_a_refusal_says_when_more_calls_are_let_through():
    breaker = recovering()
    refusals = [answer for _ in range(9) if isinstance(answer := breaker.try_acquire(CLOSED_AT + 4), BreakerRejection)]
    assert len(refusals) == 9
    assert {(refusal.state, refusal.retry_after_s) for refusal in refusals} == {("closed", 6.0)}
    assert refusals[0].cause is not None
    assert (refusals[0].cause.rule, refusals[0].cause.value) == ("recovery_ramp", 0.1)
    assert breaker.counts(CLOSED_AT + 4).rejected == 9
    assert not breaker.would_refuse(CLOSED_AT + 4)
    assert breaker.open_at(CLOSED_AT + 4) is None


def test_there_is_no_shortcut_during_the_ramp():
    breaker = recovering()
    assert breaker.quiet is None
    assert breaker.steady() is None
    breaker.record_event(CLOSED_AT + 1, OK, breaker.generation, None)
    assert breaker.quiet is None
    breaker.advance(CLOSED_AT + 30)
    assert breaker.quiet is not None
    assert breaker.steady() is not None


def test_without_a_ramp_every_call_goes_after_the_close():
    breaker = recovering(BreakerPolicy(**RULES | {"recovery_ramp": None}))
    assert breaker.admitted_share == 1
    assert admitted(breaker, CLOSED_AT, 1_000) == 1_000


def test_failures_during_the_ramp_open_again_at_once_and_the_wait_grows():
    policy = BreakerPolicy(**RULES | {"consecutive_failures": None, "failure_count": 100})
    breaker = Breaker("search", policy, 0.0)
    breaker.transition_to("open", 1_000.0, actor="test")
    probe = breaker.try_acquire(CLOSED_AT)
    breaker.record(CLOSED_AT, OK, probe)
    opened = None
    for number in range(5):
        assert opened is None
        opened = breaker.record_event(CLOSED_AT + 1, BAD if number > 1 else OK, breaker.generation, None)
    assert opened is not None
    assert (opened.state, opened.attempt) == ("open", 2)
    cause = opened.cause
    assert (cause.rule, cause.value, cause.threshold, cause.sample) == ("recovery_failed", 0.6, 0.5, 5)
    assert opened.open_until == CLOSED_AT + 1 + 120, "twice the first wait"
    assert breaker.admitted_share == 1
    breaker.record(opened.open_until, OK, breaker.try_acquire(opened.open_until))
    assert breaker.admitted_share == 0.1, "the next ramp begins with its first step"


def test_an_ordinary_rule_opens_during_the_ramp_and_counts_as_another_attempt():
    breaker = recovering()
    moved = [breaker.record_event(CLOSED_AT + 1, BAD, breaker.generation, None) for _ in range(3)]
    opened = moved[-1]
    assert opened is not None
    assert (opened.cause.rule, opened.attempt) == ("consecutive_failures", 2)


def test_an_open_after_the_ramp_is_the_first_attempt():
    breaker = recovering()
    breaker.advance(CLOSED_AT + 30)
    for _ in range(3):
        breaker.record(CLOSED_AT + 31, BAD)
    assert (breaker.state, breaker.attempt) == ("open", 1)


def test_ignored_and_late_results_drive_the_ramp_but_are_no_evidence_of_it():
    breaker = recovering()
    for _ in range(9):
        breaker.record_event(CLOSED_AT + 1, Result(ResultKind.IGNORED), breaker.generation, None)
        breaker.record_event(CLOSED_AT + 1, BAD, breaker.generation - 1, None)
    assert breaker.state == "closed"
    step = breaker.record_event(CLOSED_AT + 10, BAD, breaker.generation - 1, None)
    assert step is not None
    assert step.cause.value == 0.25
    step = breaker.record_event(CLOSED_AT + 20, Result(ResultKind.IGNORED), breaker.generation, None)
    assert step is not None
    assert step.cause.value == 0.5


@pytest.mark.parametrize("verb", ["close", "reset", "auto"])
def test_an_operators_command_ends_the_ramp_at_once(verb):
    breaker = recovering()
    commanded = breaker.command(verb, CLOSED_AT + 1, actor="ana")
    assert commanded is not None
    assert (commanded.state, commanded.cause.rule, commanded.attempt) == ("closed", "command", 0)
    assert breaker.admitted_share == 1
    assert breaker.command("auto", CLOSED_AT + 2, actor="ana") is None
    assert admitted(breaker, CLOSED_AT + 2, 100) == 100


@pytest.mark.parametrize("before", ["open", "half_open", "forced_open", "disabled"])
def test_a_close_by_an_operator_has_no_ramp(before):
    breaker = Breaker("search", POLICY, 0.0)
    breaker.transition_to("open", 1.0, actor="ana")
    breaker.transition_to(before, 1.0, actor="ana")
    breaker.command("close", 2.0, actor="ana")
    assert (breaker.state, breaker.admitted_share, breaker.attempt) == ("closed", 1, 0)


@pytest.mark.parametrize("verb", ["disable", "metrics_only", "force_open"])
def test_no_ramp_holds_in_a_commanded_state(verb):
    breaker = recovering()
    breaker.command(verb, CLOSED_AT + 1, actor="ana")
    assert breaker.admitted_share == 1
    assert breaker.advance(CLOSED_AT + 100) is None


def test_a_new_policy_ends_the_ramp_or_goes_on_with_its_steps():
    breaker = recovering()
    breaker.set_policy(
        BreakerPolicy(**RULES | {"recovery_ramp": (0.2, 0.8), "recovery_ramp_step_s": 100}), CLOSED_AT + 1
    )
    assert breaker.admitted_share == 0.2
    assert breaker.advance(CLOSED_AT + 99) is None
    breaker.set_policy(BreakerPolicy(**RULES | {"recovery_ramp": None}), CLOSED_AT + 99)
    assert (breaker.admitted_share, breaker.attempt) == (1, 0)


def test_a_fixed_window_still_drops_results_of_an_earlier_window_during_the_ramp():
    policy = BreakerPolicy(**RULES | {"sliding_window_size": 60, "sliding_window_panes": 1})
    breaker = recovering(policy)
    permit = next(answer for _ in range(10) if isinstance(answer := breaker.try_acquire(CLOSED_AT), BreakerPermit))
    assert permit.started_at == CLOSED_AT
    breaker.record(1_081.0, BAD, permit)
    assert breaker.counts(1_081.0).failed == 0


def test_a_circuit_in_its_ramp_is_not_forgotten():
    breaker = recovering(BreakerPolicy(**RULES | {"recovery_ramp_step_s": 10_000}))
    assert not breaker.may_retire(CLOSED_AT + 4_000)
    assert breaker.may_retire(CLOSED_AT + 30_000)


def test_a_snapshot_holds_the_ramp():
    breaker = recovering()
    breaker.advance(CLOSED_AT + 12)
    breaker.record_event(CLOSED_AT + 12, BAD, breaker.generation, None)
    admitted(breaker, CLOSED_AT + 13, 7)
    saved = breaker.snapshot()
    again = Breaker.restore(saved, POLICY)
    assert again.snapshot() == saved
    assert (again.admitted_share, again.attempt) == (0.25, 1)
    assert admitted(breaker, CLOSED_AT + 14, 53) == admitted(again, CLOSED_AT + 14, 53) == 14, (
        "60 asked in all, and 1 went"
    )
    for each in (breaker, again):
        each.advance(CLOSED_AT + 30)
    assert again.snapshot() == breaker.snapshot()
    assert Breaker.restore(saved, BreakerPolicy(**RULES | {"recovery_ramp": None})).admitted_share == 1


def test_a_snapshot_without_a_ramp_loads_as_one_of_an_older_version_did():
    breaker = recovering(BreakerPolicy(**RULES | {"recovery_ramp": None}))
    saved = decode(breaker.snapshot())
    assert saved.ramp is None
    assert Breaker.restore(encode(saved), POLICY).admitted_share == 1


def test_an_open_circuit_with_a_ramp_is_not_a_snapshot():
    saved = decode(recovering().snapshot())
    saved.state = 3
    with pytest.raises(SnapshotError, match="it is forced_open with a ramp"):
        Breaker.restore(encode(saved), POLICY)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0, 8), st.sampled_from([OK, OK, OK, BAD, Result(ResultKind.IGNORED)])), max_size=60),
    st.integers(0, 60),
)
def test_the_share_only_rises_within_a_generation_wherever_a_snapshot_is_taken(calls, cut):
    breaker, other = recovering(), recovering()
    now, last = CLOSED_AT, (breaker.generation, breaker.admitted_share)
    for number, (wait, result) in enumerate(calls):
        now += wait
        if number == cut:
            other = Breaker.restore(other.snapshot(), POLICY)
        for each in (breaker, other):
            answer = each.try_acquire(now)
            if isinstance(answer, BreakerPermit):
                each.record(now, result, answer)
        assert breaker.snapshot() == other.snapshot()
        share = breaker.admitted_share
        assert share in (*SHARES, 1)
        assert breaker.generation > last[0] or share >= last[1]
        last = breaker.generation, share


# -- after Retry-After

ASKED = Result(ResultKind.FAILURE, retry_after_s=90.0)
LIMITED = RULES | {"recovery_ramp": None, "retry_after_ramp": SHARES, "backoff_multiplier": 1}


def opened(policy, *results):
    """Return a circuit that opened at 1000 by these results."""
    breaker = Breaker("search", policy, 0.0)
    for result in results:
        breaker.record(1_000.0, result)
    assert breaker.state == "open"
    return breaker


def probed(breaker, result=OK, now=None):
    """Report a probe. Return the transition that followed."""
    now = breaker.open_until if now is None else now
    return breaker.record(now, result, breaker.try_acquire(now))


def rate_limited(policy=None, **rules):
    """Return a circuit that opened at 1000 by a tool that asked to wait for 90 s, and closed at 1090 by a probe."""
    breaker = opened(policy or BreakerPolicy(**LIMITED | rules), BAD, ASKED, BAD)
    moved = probed(breaker)
    assert (moved.at, moved.state) == (1_090, "closed")
    return breaker


def test_a_tool_that_asked_to_wait_comes_back_by_degrees_and_the_causes_say_why():
    breaker = rate_limited()
    assert (breaker.cause.rule, breaker.cause.reason) == ("probe_succeeded", AFTER_RETRY_AFTER)
    found = [admitted(breaker, 1_090 + second, 1_000) for second in (0, 10, 20, 29.9, 30)]
    assert found == [100, 250, 500, 500, 1_000]
    breaker = rate_limited()
    steps = [step for second in range(40) if (step := breaker.advance(1_090 + second)) is not None]
    assert [(step.at, step.cause.rule, step.cause.value, step.cause.reason) for step in steps] == [
        (1_100, "recovery_ramp", 0.25, AFTER_RETRY_AFTER),
        (1_110, "recovery_ramp", 0.5, AFTER_RETRY_AFTER),
        (1_120, "recovery_ramp", 1.0, AFTER_RETRY_AFTER),
    ]


def test_a_refusal_by_that_ramp_says_that_the_tool_asked_to_wait():
    refusal = rate_limited().try_acquire(1_091)
    assert isinstance(refusal, BreakerRejection)
    assert (refusal.retry_after_s, refusal.cause.value, refusal.cause.reason) == (9, 0.1, AFTER_RETRY_AFTER)


def test_a_tool_that_did_not_ask_to_wait_comes_back_at_once():
    breaker = opened(BreakerPolicy(**LIMITED), BAD, BAD, BAD)
    probed(breaker)
    assert (breaker.admitted_share, breaker.attempt, breaker.cause.reason) == (1, 0, None)


def test_only_the_fleets_default_has_that_ramp_and_its_steps_have_the_length_of_every_ramps_steps():
    assert (
        rate_limited(
            FLEET_DEFAULT.model_copy(update={"consecutive_failures": 3, "minimum_reporters": 1})
        ).admitted_share
        == 0.1
    )
    assert rate_limited(LOCAL_DEFAULT.model_copy(update={"consecutive_failures": 3})).admitted_share == 1
    assert rate_limited(BreakerPolicy(consecutive_failures=3)).admitted_share == 1
    breaker = rate_limited(recovery_ramp_step_s=100)
    breaker.advance(1_189.9)
    assert breaker.admitted_share == 0.1


def test_recovery_ramp_goes_before_and_no_ramp_begins_where_the_policy_ignores_retry_after():
    breaker = rate_limited(recovery_ramp=(0.3,))
    assert (breaker.admitted_share, breaker.cause.reason) == (0.3, None)
    breaker = opened(BreakerPolicy(**LIMITED | {"honor_retry_after": False}), ASKED, ASKED, ASKED)
    moved = probed(breaker)
    assert (moved.at, moved.state, breaker.admitted_share) == (1_060, "closed", 1)


def test_an_answer_with_retry_after_that_came_before_the_window_is_of_no_outage():
    def after(seconds):
        breaker = Breaker("search", BreakerPolicy(**LIMITED), 0.0)
        breaker.record(1_000.0, Result(ResultKind.FAILURE, retry_after_s=5.0))
        breaker.record(1_000.0, OK)
        for _ in range(3):
            breaker.record(1_000.0 + seconds, BAD)
        probed(breaker)
        return breaker.admitted_share

    assert [after(0), after(65), after(65.1), after(3_600)] == [0.1, 0.1, 1, 1]


def test_a_wait_that_has_not_ended_is_honoured_however_long_ago_the_tool_asked_for_it():
    breaker = Breaker("search", BreakerPolicy(**LIMITED), 0.0)
    breaker.record(0.0, Result(ResultKind.FAILURE, retry_after_s=1_100.0))
    breaker.record(1.0, OK)
    for _ in range(3):
        breaker.record(1_000.0, BAD)
    assert probed(breaker).at == 1_100
    assert breaker.admitted_share == 0.1


def test_a_probe_that_is_answered_with_retry_after_begins_the_ramp_of_the_next_close():
    breaker = opened(BreakerPolicy(**LIMITED), BAD, BAD, BAD)
    assert probed(breaker, ASKED).open_until == 1_060 + 90
    probed(breaker, BAD)
    assert probed(breaker).at == 1_150 + 60
    assert breaker.admitted_share == 0.1


def test_a_recovery_that_fails_belongs_to_the_outage_and_the_next_close_has_the_ramp_too():
    breaker = rate_limited(recovery_ramp_step_s=1_000)
    for _ in range(3):
        breaker.record_event(1_900.0, BAD, breaker.generation, None)
    assert (breaker.state, breaker.attempt, breaker.open_until) == ("open", 2, 1_960)
    probed(breaker)
    assert breaker.admitted_share == 0.1
    breaker.advance(1_960 + 3_000)
    for _ in range(3):
        breaker.record_event(5_000.0, BAD, breaker.generation, None)
    probed(breaker)
    assert breaker.admitted_share == 1, "another outage, without Retry-After"


def test_an_operators_close_is_not_slowed_by_a_tool_that_asked_to_wait():
    breaker = opened(BreakerPolicy(**LIMITED), ASKED, ASKED, ASKED)
    breaker.command("close", 1_001.0, actor="ana")
    assert (breaker.admitted_share, breaker.cause.reason) == (1, None)
    assert admitted(breaker, 1_002.0, 100) == 100


def test_a_new_policy_goes_on_with_that_ramp_or_ends_it():
    def after(**rules):
        breaker = rate_limited()
        breaker.set_policy(BreakerPolicy(**LIMITED | rules), 1_091)
        return breaker.admitted_share

    assert after(retry_after_ramp=(0.2, 0.8)) == 0.2
    assert after(recovery_ramp=(0.4, 0.6)) == 0.4
    assert after(retry_after_ramp=None) == 1
    assert after(honor_retry_after=False) == 1


def test_a_snapshot_holds_which_shares_the_ramp_climbs():
    breaker = rate_limited()
    saved = breaker.snapshot()
    again = Breaker.restore(saved, breaker.policy)
    assert again.snapshot() == saved
    for each in (breaker, again):
        each.advance(1_100)
        assert (each.admitted_share, each.cause.reason) == (0.25, AFTER_RETRY_AFTER)
    assert again.snapshot() == breaker.snapshot()


def test_a_snapshot_of_a_ramp_without_the_appended_field_is_read_and_goes_on():
    fields = msgspec.msgpack.decode(recovering().snapshot())
    assert fields[-1][-1] is False
    fields[-1].pop()
    again = Breaker.restore(msgspec.msgpack.encode(fields), BreakerPolicy(**RULES | {"retry_after_ramp": (0.9,)}))
    again.advance(CLOSED_AT + 10)
    assert (again.admitted_share, again.cause.reason) == (0.25, None)


def recovering_family():
    """Return the circuit of a server that closed at 1060, whose rules ask for two tools and two processes."""
    rules = {"minimum_tools": 2, "minimum_reporters": 2, "failure_count": 1_000, "recovery_ramp": SHARES}
    breaker = Breaker("mcp:s|family", BreakerPolicy(**rules), 0.0)
    breaker.command("force_open", 1_000.0, actor="me", until=CLOSED_AT)
    probe = breaker.try_acquire(CLOSED_AT)
    breaker.record(CLOSED_AT, Result(reporter="a", tool="one"), probe)
    assert breaker.admitted_share == 0.1
    for reporter, tool in (("a", "two"), ("b", "one")):
        breaker.record(CLOSED_AT, Result(reporter=reporter, tool=tool))
    return breaker


def failures(breaker, *callers):
    """Report thirty failed calls in turn. Return the transition that followed."""
    for number in range(30):
        reporter, tool = callers[number % len(callers)]
        moved = breaker.record(CLOSED_AT + 1, Result(ResultKind.FAILURE, reporter=reporter, tool=tool))
        if moved is not None:
            return moved
    return None


def test_one_broken_tool_does_not_open_its_server_while_it_recovers():
    assert failures(recovering_family(), ("a", "one"), ("b", "one")) is None


def test_one_process_that_fails_does_not_open_a_circuit_that_recovers_for_the_others():
    assert failures(recovering_family(), ("a", "one"), ("a", "two")) is None


def test_failures_of_several_tools_and_processes_open_a_server_that_recovers_at_little_cost():
    moved = failures(recovering_family(), ("a", "one"), ("b", "two"))
    assert (moved.state, moved.cause.rule) == ("open", "recovery_failed")
    assert (moved.cause.sample, moved.cause.tools, moved.cause.reporters) == (5, 2, 2)
