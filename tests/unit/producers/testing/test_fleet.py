import threading
import time
from datetime import timedelta

import pytest

from switchgear import CircuitOpenError, FunctionHooks, Permit, Rejection, Switchgear, SwitchgearError
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_schemas import BreakerPolicy
from tests.support.limits import HAPPEN_S
from tests.support.table import table

TOOL = "mcp:weather:get_forecast"
THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60)


@pytest.fixture
def fleet():
    return InMemoryFleet(THREE)


def fail(gear, times, tool=TOOL):
    for _ in range(times):
        answer = gear.try_acquire(tool)
        assert answer, answer
        answer.failure(ConnectionError("down"))


def test_client_takes_a_fleet_as_its_brokers(fleet):
    with Switchgear(fleet, service="planner") as gear:
        assert gear.call(TOOL, lambda: 42) == 42
    (event,) = fleet.events(TOOL)
    assert (event["tool_name"], event["status"], event["service"]) == (TOOL, "success", "planner")


def test_failures_of_one_process_open_the_circuit_of_another(fleet):
    one, other = fleet.gear("one"), fleet.gear("other")
    fail(one, 3)
    assert fleet.state(TOOL) == "open"
    with pytest.raises(CircuitOpenError) as refused:
        other.call(TOOL, pytest.fail)
    assert refused.value.source == "fleet"
    assert other.circuits()[TOOL].state == "open"


def test_one_process_probes_after_the_wait(fleet):
    gears = [fleet.gear(f"process {number}") for number in range(10)]
    fail(gears[0], 3)
    fleet.advance(60)
    answers = [gear.try_acquire(TOOL) for gear in gears]
    probes = [answer for answer in answers if isinstance(answer, Permit)]
    assert len(probes) == 1
    assert probes[0].lease_id is not None
    assert all(answer.state == "half_open" for answer in answers if isinstance(answer, Rejection))
    probes[0].success()
    assert fleet.state(TOOL) == "closed"
    assert all(gear.try_acquire(TOOL) for gear in gears)


def test_failed_probe_opens_the_circuit_again(fleet):
    gear, other = fleet.gear(), fleet.gear()
    fail(gear, 3)
    fleet.advance(60)
    fail(other, 1)
    assert fleet.state(TOOL) == "open"
    assert fleet.circuits()[TOOL].attempt == 2


async def test_fleet_guards_coroutines(fleet):
    gear = fleet.gear()
    fleet.open_circuit(TOOL, for_s=30)

    async def call():
        return "sunny"

    with pytest.raises(CircuitOpenError):
        await gear.acall(TOOL, call)
    fleet.advance(31)
    assert await gear.acall(TOOL, call) == "sunny"
    assert fleet.state(TOOL) == "closed"


def test_circuit_opened_by_a_test_stays_open_until_it_is_closed(fleet):
    gear = fleet.gear()
    fleet.open_circuit(TOOL, reason="maintenance")
    refusal = gear.try_acquire(TOOL)
    assert (refusal.state, refusal.retry_after_s) == ("forced_open", None)
    assert "maintenance" in refusal.reason
    fleet.advance(86_400)
    assert gear.is_open(TOOL)
    fleet.close_circuit(TOOL)
    assert gear.try_acquire(TOOL)


def test_report_sends_events_of_another_process(fleet):
    gear = fleet.gear()
    fleet.report(TOOL, times=2, error_class="server")
    assert not gear.is_open(TOOL)
    fleet.report(TOOL, "timeout", process="third")
    assert gear.is_open(TOOL)
    assert [event["emitter_id"] for event in fleet.events(TOOL)] == ["other", "other", "third"]


def test_fleet_takes_policies_by_tool():
    by_name = InMemoryFleet({TOOL: BreakerPolicy(consecutive_failures=1)})
    by_function = InMemoryFleet(lambda _tool: BreakerPolicy(consecutive_failures=1))
    for fleet in (by_name, by_function):
        fleet.report(TOOL)
        assert fleet.state(TOOL) == "open"
    by_name.report("another", times=7)
    assert by_name.state("another") == "closed"
    by_name.report("another")
    assert by_name.circuits()["another"].cause.rule == "cusum"


def test_command_sets_only_the_values_of_a_policy_that_it_names_and_an_empty_one_takes_them_back(fleet):
    fleet.command(TOOL, "set_policy", policy=BreakerPolicy(consecutive_failures=4))
    fleet.report(TOOL, times=3)
    assert fleet.state(TOOL) == "closed"
    fleet.report(TOOL)
    opened = fleet.circuits()[TOOL]
    assert (opened.state, opened.open_until) == ("open", opened.changed_at + timedelta(seconds=60))
    fleet.close_circuit(TOOL)
    fleet.command(TOOL, "set_policy", policy=BreakerPolicy())
    fleet.report(TOOL, times=3)
    assert fleet.state(TOOL) == "open"


def test_policy_of_a_glob_is_set_for_the_tools_of_every_partition(fleet):
    fleet.command("tool*", "set_policy", policy=BreakerPolicy(consecutive_failures=4))
    tools = [f"tool{number}" for number in range(12)]
    for tool in tools:
        fleet.report(tool, times=3)
    assert {fleet.state(tool) for tool in tools} == {"closed"}


def test_disconnected_client_decides_alone_and_sends_its_events_later(fleet):
    gear, other = fleet.gear(), fleet.gear()
    fleet.cut(gear)
    fail(gear, 3)
    assert (fleet.events(), fleet.state(TOOL)) == ([], "closed")
    assert other.try_acquire(TOOL)
    fleet.mend(gear)
    assert len(fleet.events(TOOL)) == 3
    assert other.is_open(TOOL)
    assert gear.is_open(TOOL)


def test_client_disconnected_for_long_uses_its_own_breaker(fleet):
    gear = fleet.gear()
    fleet.open_circuit(TOOL, for_s=10)
    fleet.cut(gear)
    fleet.advance(11)
    assert gear.status().follower.age_s == 11
    assert gear.try_acquire(TOOL)  # the wait is over, no worker can be asked, and its own breaker is closed


@pytest.mark.parametrize(("wanted", "passes"), [("deny", False), ("local", True), ("last_known", False)])
def test_on_state_unavailable_holds_for_a_disconnected_client(fleet, wanted, passes):
    gear = fleet.gear(on_state_unavailable=wanted)
    fleet.open_circuit("broken")
    fleet.cut(gear)
    fleet.advance(14)
    assert (bool(gear.try_acquire(TOOL)), bool(gear.try_acquire("broken"))) == (True, False)
    fleet.advance(1)
    assert bool(gear.try_acquire(TOOL)) == (wanted != "deny")
    assert bool(gear.try_acquire("broken")) == passes
    fleet.mend(gear)
    assert (bool(gear.try_acquire(TOOL)), bool(gear.try_acquire("broken"))) == (True, False)
    assert gear.status().mode == "fleet"


def test_closed_client_receives_no_records(fleet):
    gear = fleet.gear(on_state_unavailable="deny")
    gear.close()
    fleet.open_circuit("broken")
    fleet.mend(gear)
    assert (bool(gear.try_acquire(TOOL)), bool(gear.try_acquire("broken"))) == (True, True)
    fleet.clock.advance(15)
    assert gear.status().mode == "deny"


@pytest.mark.parametrize("trigger", ["advance", "mend"])
def test_full_buffer_drops_events_and_calls_on_drop(fleet, trigger):
    dropped = []
    gear = Switchgear(fleet, buffer_size=2, hooks=[FunctionHooks(on_drop=dropped.append)])
    fleet.cut(gear)
    for _ in range(5):
        gear.call(TOOL, lambda: None)
    assert gear.status().emitter.dropped == 3
    if trigger == "advance":
        fleet.advance(1)
    else:
        fleet.mend(gear)
    assert dropped == [3]
    fleet.advance(1)
    assert dropped == [3]


def test_events_accumulate_without_a_worker(fleet):
    gear = fleet.gear()
    fleet.stop_worker()
    fail(gear, 3)
    assert fleet.state(TOOL) == "closed"
    fleet.start_worker()
    assert fleet.state(TOOL) == "open"
    assert gear.is_open(TOOL)


def test_refuses_an_unanswered_request_for_a_probe_without_waiting(fleet):
    gear = fleet.gear()
    fleet.open_circuit(TOOL, for_s=1)
    fleet.stop_worker()
    fleet.advance(2)
    started = time.monotonic()
    for _ in range(200):
        assert not gear.try_acquire(TOOL)
        fleet.advance(0.1)
    assert time.monotonic() - started < 20


def test_events_of_refusals_are_bounded(fleet):
    gear = fleet.gear()
    fleet.open_circuit(TOOL)
    for _ in range(100):
        assert not gear.try_acquire(TOOL)
    fleet.advance(2)
    refused = [event["metadata"]["refused"] for event in fleet.events(TOOL)]
    assert len(refused) == 2
    assert sum(refused) == 100


def test_fleet_takes_a_clock():
    clock = FakeClock(start=1_900_000_000)
    fleet = InMemoryFleet(clock=clock)
    fleet.report(TOOL)
    assert fleet.events()[0]["recorded_at"].startswith("2030-03-17T17:46:40")


def test_status_counts_emitted_and_waiting_events(fleet):
    gear = fleet.gear()
    fail(gear, 2)
    fleet.cut(gear)
    fail(gear, 1)
    emitter = gear.status().emitter
    assert (emitter.emitted, emitter.acknowledged, emitter.buffered, emitter.connected) == (3, 2, 1, False)
    assert not gear.flush()
    fleet.mend(gear)
    assert gear.flush()
    assert gear.close()


@pytest.mark.slow
def test_fleet_is_thread_safe(fleet):
    gears = [fleet.gear() for _ in range(4)]

    def work(gear):
        for _ in range(100):
            gear.call("ok", lambda: None)

    threads = [threading.Thread(target=work, args=(gear,)) for gear in gears]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert len(fleet.events("ok")) == 400


# -- impossible arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("for_s", [0, -5, "x", float("inf"), float("nan"), 1e12, True])
def test_open_circuit_rejects_an_impossible_time(fleet, for_s):
    with pytest.raises(SwitchgearError, match="for_s"):
        fleet.open_circuit(TOOL, for_s=for_s)
    assert fleet.state(TOOL) == "closed"


@table(
    ("name", "given"),
    [
        ("policies", 5),
        ("policies", {"a": 5}),
        ("policies", BreakerPolicy),
        ("clock", 5),
        ("clock", time.monotonic),
    ],
)
def test_fleet_rejects_an_impossible_argument(name, given):
    with pytest.raises(SwitchgearError, match=name):
        InMemoryFleet(**{name: given})


def test_cut_rejects_a_client_of_another_fleet(fleet):
    for wrong in ("planner", None, InMemoryFleet().gear("planner"), Switchgear.local()):
        for act in (fleet.cut, fleet.mend):
            with pytest.raises(SwitchgearError, match="gear must be a client of this fleet"):
                act(wrong)


def test_report_rejects_zero_calls_and_unknown_fields(fleet):
    for times in (0, -1, 1.5, "3", True):
        with pytest.raises(SwitchgearError, match="times"):
            fleet.report(TOOL, times=times)
    with pytest.raises(SwitchgearError, match="no field eror_class"):
        fleet.report(TOOL, eror_class="server")
    with pytest.raises(SwitchgearError, match=r"no field colour\. Put your own fields into metadata"):
        fleet.report(TOOL, colour="red")
    with pytest.raises(SwitchgearError, match="status"):
        fleet.report(TOOL, "failed")
    assert fleet.events() == []
