"""While a circuit recovers, each process picks its own share of the calls."""

from __future__ import annotations

import json
import time

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Classification, Permit, Rejection, Switchgear
from switchgear.breaker.ramp import admits, in_words, phase_of
from switchgear.follower.view import CircuitView, Instant, UnreadableCircuitError, decode_view
from switchgear.guard.attempts import PendingProbe
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.rejections import Caller
from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet, MemoryEmitter, MemoryFollower
from tests.support.clock import Clock
from tests.support.table import table

TOOL = "search"
STEPS = (0.1, 0.25, 0.5)
POLICY = BreakerPolicy(
    consecutive_failures=3, wait_duration_in_open_state_s=60, recovery_ramp=STEPS, recovery_ramp_step_s=10
)


def recover(fleet, *gears):
    """Let the circuit open, and close by one probe."""
    fleet.report(TOOL, times=3)
    fleet.advance(60)
    for gear in gears:
        answer = gear.try_acquire(TOOL)
        if answer:
            answer.success()
    assert fleet.state(TOOL) == "closed"


def ask(gear, calls):
    """Ask for so many calls, and report each permitted one as a success. Return the answers."""
    answers = [gear.try_acquire(TOOL) for _ in range(calls)]
    for answer in answers:
        if isinstance(answer, Permit):
            answer.success()
    return answers


@pytest.mark.slow
def test_twenty_processes_admit_the_share_of_each_step_together():
    fleet = InMemoryFleet(POLICY)
    gears = [fleet.gear(f"service {number}") for number in range(20)]
    recover(fleet, *gears)
    found = []
    for _ in range(4):
        view = gears[0].circuits()[TOOL]
        admitted = sum(isinstance(answer, Permit) for gear in gears for answer in ask(gear, 50))
        found.append((view.admitted_share, admitted))
        fleet.advance(10)
        fleet.report(TOOL, "success")  # the owner has no timer
    assert [share for share, _ in found] == [*STEPS, 1]
    for share, admitted in found:
        assert admitted == pytest.approx(1_000 * share, abs=20), "within one call a process"
    assert fleet.circuits()[TOOL].admitted_share == 1


def test_processes_that_call_once_do_not_all_come_at_the_same_time():
    fleet = InMemoryFleet(POLICY)
    gears = [fleet.gear(f"service {number}") for number in range(20)]
    recover(fleet, gears[0])
    admitted = [gear for gear in gears if gear.try_acquire(TOOL)]
    assert 0 <= len(admitted) <= 8, "at most a few of twenty"


def test_a_process_admits_the_calls_that_its_phase_picks():
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    phase = phase_of(gear._emitter.emitter_id)
    assert [bool(answer) for answer in ask(gear, 40)] == [admits(n, 0.1, phase) for n in range(1, 41)]


def test_a_refusal_says_that_the_tool_recovers_and_that_a_later_call_may_go():
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    refusal = next(answer for answer in ask(gear, 20) if isinstance(answer, Rejection))
    assert (refusal.state, refusal.source, refusal.retry_after_s) == ("closed", "fleet", None)
    assert refusal.reason == "recovery: 10 % of calls are admitted"
    assert refusal.generation == fleet.circuits()[TOOL].generation
    assert refusal.text.startswith(f"The tool {TOOL} is recovering, and only some calls are let through.")
    assert "This one was not (10 % of calls are admitted)." in refusal.text
    assert refusal.text.endswith("Try again shortly.")
    assert refusal.error().message == (f"The fleet circuit of {TOOL} recovers (recovery: 10 % of calls are admitted).")


def test_refused_calls_are_reported_and_move_the_owner_to_the_next_step():
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    fleet.advance(35)

    answers = [gear.try_acquire(TOOL) for _ in range(2)]  # no permitted call ends before
    assert not all(answers)
    fleet.advance(1)
    assert fleet.circuits()[TOOL].admitted_share == 1
    assert all(ask(gear, 30))


def test_an_admitted_call_has_the_circuits_generation_and_its_failure_counts():
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    failed = 0
    for _ in range(200):
        answer = gear.try_acquire(TOOL)
        if answer:
            answer.failure(ConnectionError("down"))
            failed += 1
    assert fleet.state(TOOL) == "open"
    assert failed == 3, "consecutive_failures"
    assert fleet.circuits()[TOOL].attempt == 2


def rate_limited(fleet, gear):
    """Let a tool ask to wait under the fleet's default policy, until its circuit opens, and close it by one probe."""
    for number in range(20):
        fleet.report(TOOL, process=f"p{number % 2}", error_class="rate_limited", retry_after_s=90)
    assert fleet.state(TOOL) == "open"
    fleet.advance(90)
    answer = gear.try_acquire(TOOL)
    assert answer
    answer.success()
    assert fleet.state(TOOL) == "closed"


def test_a_process_reads_in_each_refusal_that_the_tool_asked_to_wait():
    fleet = InMemoryFleet()
    gear = fleet.gear()
    rate_limited(fleet, gear)
    for percent in (10, 25, 50):
        refusal = next(answer for answer in ask(gear, 20) if isinstance(answer, Rejection))
        why = f"{percent} % of calls are admitted, because the tool sent Retry-After"
        assert refusal.reason == f"recovery: {why}"
        assert refusal.text == (
            f"The tool {TOOL} is recovering, and only some calls are let through. This one was not ({why})."
            " Its last error was a rate limit. Try again shortly."
        )
        assert refusal.error().message == f"The fleet circuit of {TOOL} recovers (recovery: {why})."
        fleet.advance(10)
        fleet.report(TOOL, "success")  # the owner has no timer
    assert all(ask(gear, 20))


@pytest.mark.slow
def test_a_fleet_whose_policy_turns_it_off_comes_back_at_once_although_the_tool_asked_to_wait():
    for policy in (PolicySet(tools={TOOL: {"retry_after_ramp": "off"}}), BreakerPolicy(failure_count=20)):
        fleet = InMemoryFleet(policy)
        gear = fleet.gear()
        rate_limited(fleet, gear)
        assert all(ask(gear, 50))


def test_a_recovering_tool_is_neither_open_nor_unavailable():
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    assert not gear.is_open(TOOL)
    assert gear.notice() == ""


@pytest.mark.parametrize("act", ["close_circuit", "disable_circuit"])
def test_no_ramp_holds_after_an_operators_command(act):
    fleet = InMemoryFleet(POLICY)
    gear = fleet.gear()
    recover(fleet, gear)
    if act == "close_circuit":
        fleet.close_circuit(TOOL)
    else:
        fleet.command(TOOL, "disable")
    assert all(ask(gear, 50))


def test_a_process_without_a_fleet_admits_exactly_the_share_by_every_path():
    rules = {"consecutive_failures": 1, "wait_duration_in_open_state_s": 0.001, "recovery_ramp_step_s": 3_600}
    gear = Switchgear.local(local_policies=BreakerPolicy(recovery_ramp=STEPS, **rules))
    guarded = gear.guard(TOOL)(lambda: "found")
    gear.try_acquire(TOOL).failure(ConnectionError("down"))
    time.sleep(0.01)
    assert guarded() == "found", "the probe"
    answers = ask(gear, 100)
    assert sum(bool(answer) for answer in answers) == 10
    refusal = answers[0]
    assert isinstance(refusal, Rejection)
    assert (refusal.state, refusal.source, refusal.reason) == ("closed", "local", in_words(0.1))
    assert refusal.retry_after_s == pytest.approx(3_600, abs=60)
    assert "is recovering" in refusal.text
    assert "Retry-After" not in refusal.text
    refused = 0
    for _ in range(100):
        try:
            assert guarded() == "found"
        except CircuitOpenError as error:
            assert error.text == refusal.text
            refused += 1
    assert refused == 90


def test_a_process_without_a_fleet_may_have_that_ramp_too_and_says_why_it_refuses():
    fleet = InMemoryFleet(BreakerPolicy())
    rules = {"consecutive_failures": 1, "wait_duration_in_open_state_s": 1}
    gear = fleet.gear(local_policies=BreakerPolicy(retry_after_ramp=STEPS, **rules))
    gear.try_acquire(TOOL).failure(ConnectionError("429"), classification=Classification("rate_limited", 5.0))
    fleet.advance(5)
    gear.try_acquire(TOOL).success()
    refusal = gear.try_acquire(TOOL)
    assert (refusal.source, refusal.retry_after_s) == ("local", 10)
    assert refusal.reason == "recovery: 10 % of calls are admitted, because the tool sent Retry-After"


# -- records given by hand


def view(share, state="closed", **fields):
    return CircuitView(TOOL, TOOL, state, 2, 3, Instant(0), admitted_share=share, **fields)


@pytest.fixture
def circuits():
    clock = Clock(100.0)
    emitter = MemoryEmitter(lambda *_: None, clock, emitter_id="me")
    return FleetCircuits(MemoryFollower(clock), emitter, silence_s=30, clock=clock, wall=clock)


@table(
    ("share", "state", "mode", "passes", "recovers"),
    [
        (0.1, "closed", "enforce", False, True),
        (1.0, "closed", "enforce", True, False),
        (0.1, "closed", "metrics_only", True, False),
        (0.1, "closed", "disabled", True, False),
        (0.1, "closed", "forced_open", False, False),
        (0.1, "open", "enforce", False, False),
    ],
)
def test_only_a_closed_circuit_that_is_enforced_recovers(share, state, mode, passes, recovers):
    found = view(share, state, mode=mode)
    assert (found.passes, found.recovers) == (passes, recovers)


@table("share", [0, -0.1, 1.1, "0.5", None])
def test_a_record_with_an_impossible_share_is_no_record(share):
    value = {"circuit_id": "t", "tool_name": "t", "state": "closed", "version": 1, "generation": 1}
    value |= {"changed_at": "2026-01-01T00:00:00Z", "admitted_share": share}
    with pytest.raises(UnreadableCircuitError):
        decode_view(json.dumps(value).encode())


def test_the_count_of_calls_begins_again_with_the_next_recovery_and_in_the_child_of_a_fork(circuits):
    first = [circuits.admits(view(0.1)) for _ in range(15)]
    for begin_again in (lambda: circuits.on_view(view(1.0)), circuits.forked):
        begin_again()
        assert [circuits.admits(view(0.1)) for _ in range(15)] == first


def test_the_next_step_goes_on_with_the_count(circuits):
    phase = phase_of("me")
    found = [circuits.admits(view(0.1)) for _ in range(5)]
    circuits.on_view(view(0.5))
    found += [circuits.admits(view(0.5)) for _ in range(5)]
    assert found == [admits(n, 0.1 if n <= 5 else 0.5, phase) for n in range(1, 11)]


def test_the_call_that_waited_for_a_probe_wakes_when_the_circuit_recovers(circuits):
    waiting = circuits.request_probe(view(1.0, "open", open_until=Instant(50)))
    circuits.on_view(view(0.1))
    assert waiting.done()


def test_a_circuit_that_refuses_goes_before_one_that_recovers(circuits):
    of_user = f"{TOOL}|user=ana"
    circuits.follower.table.views[TOOL] = view(0.1)
    circuits.follower.table.views[of_user] = CircuitView(of_user, TOOL, "open", 1, 1, Instant(0), scope="user")
    circuits.scoped.add(TOOL)
    assert circuits.view(TOOL, Caller("ana")).circuit_id == of_user
    assert circuits.view(TOOL, Caller("ben")).circuit_id == TOOL


def test_calls_that_waited_for_a_probe_are_picked_by_the_share_too():
    fleet = InMemoryFleet(POLICY)
    gears = [fleet.gear(f"service {number}") for number in range(20)]
    fleet.report(TOOL, times=3)
    fleet.advance(60)
    fleet.stop_worker()
    waiting = [(gear, gear._decision.acquire(TOOL)) for gear in gears]
    assert all(isinstance(pending, PendingProbe) for _, pending in waiting)
    fleet.start_worker()
    (lease,) = fleet.circuits()[TOOL].leases
    waiting.sort(key=lambda each: each[0]._emitter.emitter_id != lease.emitter_id)
    answers = []
    for gear, pending in waiting:
        answers.append(gear._decision.after_answer(pending))
        if len(answers) == 1:
            answers[0].success()
            assert fleet.circuits()[TOOL].admitted_share == 0.1
    picked = [admits(1, 0.1, phase_of(gear._emitter.emitter_id)) for gear, _ in waiting[1:]]
    assert [isinstance(answer, Permit) for answer in answers] == [True, *picked]
    assert not all(picked)
