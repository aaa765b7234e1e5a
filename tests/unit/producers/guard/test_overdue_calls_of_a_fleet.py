"""A call that hangs in one process is a slow call for the whole fleet before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from switchgear import BreakerPolicy
from switchgear.guard.overdue_calls import OverdueCalls, Wait
from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet
from tests.support.limits import ANSWER_S
from tests.support.waiting import until

SLOW = {"slow_call_duration_threshold_ms": 200, "slow_call_rate_threshold": 0.5}
TWENTY = BreakerPolicy(**SLOW, minimum_number_of_calls=20)
NEVER_JUDGED = BreakerPolicy(**SLOW, minimum_number_of_calls=1000)
OFF = BreakerPolicy(mode="disabled")
HANGS_S = 3.0


def fleet_of(policy=TWENTY):
    """Return a fleet that has seen a call, so that its processes know the limit."""
    fleet = InMemoryFleet(policy)
    fleet.report("t", "success")
    return fleet


def reports(fleet, tool="t"):
    return [event for event in fleet.events(tool) if event["status"] == "overdue"]


def ends(fleet, tool="t"):
    return [event for event in fleet.events(tool) if event["status"] != "overdue"]


def in_window(fleet, tool="t"):
    fleet.open_circuit(tool, for_s=60)  # an open circuit keeps its window, and its record shows it
    counts = fleet.circuits()[tool].counts
    return counts.calls, counts.failed, counts.slow


# -- the done-when ----------------------------------------------------------------------------------------------------


def test_twenty_hung_calls_of_one_process_refuse_the_others_within_twice_the_threshold():
    fleet = fleet_of()
    one, other = fleet.gear(local_policies=OFF), fleet.gear(local_policies=OFF)
    held = [one.try_acquire("t") for _ in range(20)]
    fleet.advance(0.199)
    assert not other.is_open("t")
    fleet.advance(0.201)
    refusal = other.try_acquire("t")
    assert not refusal
    assert (refusal.source, fleet.circuits()["t"].cause.rule) == ("fleet", "slow_call_rate")
    fleet.advance(HANGS_S)
    for permit in held:
        permit.success()
    assert fleet.circuits()["t"].attempt == 1


def test_calls_of_a_guarded_function_are_watched_although_the_processs_own_circuit_counts_nothing():
    fleet = fleet_of(BreakerPolicy(**{**SLOW, "slow_call_rate_threshold": 0.3}, minimum_number_of_calls=3))
    states = []

    @fleet.gear().guard("t")
    def search(seconds):
        fleet.advance(seconds)
        states.append(fleet.state("t"))

    for seconds in (0.1, 0.3):
        search(seconds)
    assert states == ["closed", "open"]


# -- what is sent -----------------------------------------------------------------------------------------------------


def test_a_call_is_reported_once_and_its_end_says_so():
    fleet = fleet_of(NEVER_JUDGED)
    gear = fleet.gear(local_policies=OFF)
    permit = gear.try_acquire("t", user_id="ana", session_id="s-1", request_id="r-1")
    for _ in range(5):
        fleet.advance(0.25)
    permit.success()
    (report,) = reports(fleet)
    assert report["execution_time_ms"] == 250
    assert (report["user_id"], report["session_id"], report["request_id"]) == ("ana", "s-1", "r-1")
    assert report["generation"] == fleet.circuits()["t"].generation
    end = ends(fleet)[-1]
    assert (end["status"], end["execution_time_ms"], end["overdue_ms"]) == ("success", 1250, 250)
    assert in_window(fleet) == (2, 0, 1)


def test_a_quick_call_sends_no_report_and_its_end_says_nothing():
    fleet = fleet_of(NEVER_JUDGED)
    gear = fleet.gear(local_policies=OFF)
    permit = gear.try_acquire("t")
    fleet.advance(0.199)
    permit.success()
    fleet.advance(1)
    assert reports(fleet) == []
    assert "overdue_ms" not in ends(fleet)[-1]


def test_a_call_that_was_overdue_and_fails_is_one_failed_and_slow_call_of_the_fleet():
    fleet = fleet_of(NEVER_JUDGED)
    permit = fleet.gear(local_policies=OFF).try_acquire("t")
    fleet.advance(HANGS_S)
    permit.failure(TimeoutError())
    assert in_window(fleet) == (2, 1, 1)
    assert fleet.circuits()["t"].counts.total_calls == 2


def test_calls_of_tools_for_which_the_fleet_knows_no_limit_are_not_watched():
    fleet = fleet_of(BreakerPolicy(failure_count=100))
    gear = fleet.gear()
    permit = gear.try_acquire("t")
    fleet.advance(3600)
    assert permit.wait is None
    permit.success()
    assert reports(fleet) == []


def test_while_the_fleet_has_no_record_its_processes_report_by_their_own_limit():
    fleet = InMemoryFleet(TWENTY)
    gear = fleet.gear(local_policies=NEVER_JUDGED)
    held = [gear.try_acquire("t") for _ in range(20)]
    fleet.advance(0.2)
    assert len(reports(fleet)) == 20
    assert fleet.state("t") == "open"
    assert held


def test_the_own_circuit_and_the_fleet_are_told_by_their_own_limits():
    fleet = fleet_of(BreakerPolicy(**{**SLOW, "slow_call_duration_threshold_ms": 1000}, minimum_number_of_calls=1000))
    gear = fleet.gear(local_policies=BreakerPolicy(**SLOW, minimum_number_of_calls=1))
    permit = gear.try_acquire("t")
    fleet.advance(0.2)
    assert gear.is_open("t")
    assert reports(fleet) == []
    fleet.advance(0.9)
    assert [report["execution_time_ms"] for report in reports(fleet)] == [1100]
    permit.success()
    assert ends(fleet)[-1]["overdue_ms"] == 1100
    assert gear._decision.local.circuits["t"].breaker.counts(2.0).slow == 1


def test_a_probe_for_the_fleet_that_hangs_opens_its_circuit_again_before_it_ends():
    fleet = fleet_of(BreakerPolicy(**SLOW, consecutive_failures=3, wait_duration_in_open_state_s=10))
    gear = fleet.gear(local_policies=OFF)
    fleet.report("t", times=3)
    fleet.advance(10)
    probe = gear.try_acquire("t")
    assert probe.probe
    fleet.advance(0.3)
    record = fleet.circuits()["t"]
    assert (record.state, record.cause.rule) == ("open", "probe_slow")
    probe.success()
    assert fleet.state("t") == "open"


def test_tools_of_a_server_that_hang_open_its_circuit():
    policies = PolicySet(family={"mcp:maps": {**SLOW, "minimum_number_of_calls": 4, "minimum_reporters": 1}})
    fleet = InMemoryFleet(policies)
    for tool in ("route", "place"):
        fleet.report(f"mcp:maps:{tool}", "success")
    gear = fleet.gear(local_policies=PolicySet({"mode": "disabled"}, family={"*": {"mode": "disabled"}}))
    held = [gear.try_acquire(f"mcp:maps:{tool}") for tool in ("route", "place", "route", "place")]
    fleet.advance(0.2)
    assert fleet.circuits()["mcp:maps|family"].state == "open"
    assert held


def test_a_process_that_is_cut_off_reports_when_it_is_connected_again():
    fleet = fleet_of(NEVER_JUDGED)
    gear = fleet.gear(local_policies=OFF)
    permit = gear.try_acquire("t")
    fleet.cut(gear)
    fleet.advance(1)
    assert reports(fleet) == []
    fleet.mend(gear)
    assert len(reports(fleet)) == 1
    permit.success()
    assert in_window(fleet) == (2, 0, 1)


def test_with_a_rate_alone_the_own_circuit_takes_what_the_fleet_has_learned():
    fleet = InMemoryFleet(BreakerPolicy(failure_count=100))
    for _ in range(130):
        fleet.report("t", "success", execution_time_ms=4_000)
        fleet.advance(1)
    limit_s = fleet.circuits()["t"].overdue_after_ms / 1000
    assert 12 <= limit_s <= 15
    gear = fleet.gear(local_policies=BreakerPolicy(slow_call_rate_threshold=0.5, minimum_number_of_calls=1))
    held = gear.try_acquire("t")
    fleet.advance(limit_s - 0.1)
    assert not gear.is_open("t")
    fleet.advance(0.2)
    assert gear.is_open("t")
    assert held


# -- giving up by the fleet's limit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "status"), [(0.1, "cancelled"), (0.2, "timeout")])
def test_the_fleets_limit_decides_whether_a_cancelled_call_was_overdue(seconds, status):
    fleet = fleet_of(NEVER_JUDGED)
    permit = fleet.gear().try_acquire("t")
    fleet.advance(seconds)
    permit.failure(asyncio.CancelledError())
    assert ends(fleet)[-1]["status"] == status


def test_a_process_with_a_limit_of_its_own_keeps_it():
    fleet = fleet_of(NEVER_JUDGED)
    own = BreakerPolicy(**{**SLOW, "slow_call_duration_threshold_ms": 60_000})
    permit = fleet.gear(local_policies=own).try_acquire("t")
    fleet.advance(59)
    permit.failure(asyncio.CancelledError())
    assert ends(fleet)[-1]["status"] == "cancelled"


# -- the background thread --------------------------------------------------------------------------------------------


class Held:
    """What stands for a permit here."""

    def __init__(self, started):
        self.started = started
        self.wait = None
        self.reported = False

    def watch(self, wait):
        self.wait = wait


def test_the_background_thread_looks_when_a_call_is_due_and_not_before():
    told, loop, done = [], asyncio.new_event_loop(), asyncio.Event()

    def tell(permit, ran_ms):
        told.append((permit, ran_ms))
        loop.call_soon_threadsafe(done.set)

    calls = OverdueCalls(lambda *_: None, tell)
    thread = threading.Thread(target=loop.run_until_complete, args=(look_until(calls, loop.time, done),))
    thread.start()
    until(lambda: calls._wakes_at > 0)
    first = Held(loop.time())
    calls.begin(first, fleet_ms=50)
    thread.join(ANSWER_S)
    loop.close()
    assert [permit for permit, _ in told] == [first]
    assert 50 <= told[0][1] < 900, "it did not wait for the look of every second"


async def look_until(calls, clock, done):
    looking = asyncio.ensure_future(calls.run(clock))
    await done.wait()
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking


def test_a_wait_tells_each_only_once():
    wait = Wait(since=10.0, local_ms=200, fleet_ms=1000)
    assert wait.due_at() == 10.2
    assert wait.tell(10.2) >= 200
    assert wait.due_at() == 11.0
    assert wait.tell(12.0) == 2000
    assert (wait.local_overdue_ms >= 200, wait.fleet_overdue_ms, wait.due_at()) == (True, 2000, float("inf"))
