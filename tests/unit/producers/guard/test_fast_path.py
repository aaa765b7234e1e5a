"""The fast path of a guard without options does the same as the full path."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Event, Switchgear
from switchgear.emitter.encode import encode_items
from switchgear.testing import InMemoryFleet
from switchgear_schemas.execution import ToolExecution
from tests.support.limits import ANSWER_S, HAPPEN_S

NO_BROKER = "127.0.0.1:1"
QUICK = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)


class DownError(Exception):
    """The tool is broken."""


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=QUICK)


@pytest.fixture
def connected():
    """A client whose broker is away: what it would send stays in its buffer."""
    made = Switchgear(NO_BROKER, service="planner", local_policies=QUICK)
    made._emitter.wake = lambda urgent: None
    made._runtime.started = True
    yield made
    made._emitter.closed = True


def breaker_of(gear, tool="search"):
    return gear._decision.local.circuits[tool].breaker


def answers(_self=None):
    return "found"


async def aanswers():
    await asyncio.sleep(0)
    return "found"


def down():
    raise DownError("no route")


def open_up(gear, tool="search"):
    for _ in range(2):
        gear.try_acquire(tool).failure(DownError("no route"))


# -- the short way ----------------------------------------------------------------------------------------------------


def test_a_call_of_a_quiet_circuit_waits_for_no_lock(gear):
    search = gear.guard("search")(answers)
    search()
    with gear._decision.local.circuits["search"].lock:
        assert search() == "found"


@pytest.mark.slow
async def test_a_coroutine_call_of_a_quiet_circuit_waits_for_no_lock(gear):
    search = gear.guard("search")(aanswers)
    await search()
    with gear._decision.local.circuits["search"].lock:
        assert await search() == "found"


def test_a_success_ends_a_run_of_failures(gear):
    fail, succeed = gear.guard("search")(down), gear.guard("search")(answers)
    for _ in range(5):
        with pytest.raises(DownError):
            fail()
        succeed()
    assert breaker_of(gear).state == "closed"
    assert breaker_of(gear).quiet is not None


def test_the_local_default_keeps_the_fast_path():
    gear = Switchgear.local()
    fail, succeed = gear.guard("search")(down), gear.guard("search")(answers)
    succeed()
    assert breaker_of(gear).quiet is not None
    with pytest.raises(DownError):
        fail()
    assert breaker_of(gear).quiet is None
    succeed()
    assert breaker_of(gear).quiet is not None, "a success weighs more than a failure"


def test_a_success_whose_call_began_before_a_failure_ends_its_run(gear):
    @gear.guard("search")
    def search():
        gear.try_acquire("search").failure(DownError())

    search()  # the first call takes the exact way: there was no circuit yet
    search()
    assert breaker_of(gear)._evidence.streak == 0


@pytest.mark.parametrize("ends", [answers, down])
def test_a_call_that_began_before_the_circuit_opened_decides_nothing(gear, ends):
    @gear.guard("search")
    def search():
        if breaker_of(gear).state == "closed" and opens:
            open_up(gear)
        return ends()

    opens = False
    try:
        search()
    except DownError:
        gear.try_acquire("search").success()
    opens = True
    generation = breaker_of(gear).generation
    try:
        search()
    except DownError:
        assert ends is down
    assert (breaker_of(gear).state, breaker_of(gear).generation) == ("open", generation + 1)


@pytest.mark.parametrize(
    "policy",
    [
        BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=4),
        BreakerPolicy(consecutive_failures=9, slow_call_rate_threshold=0.5, slow_call_duration_threshold_ms=1),
        BreakerPolicy(failure_count=3, sliding_window_type="count", sliding_window_size=10),
        BreakerPolicy(consecutive_failures=9, sliding_window_panes=1),
    ],
)
def test_every_success_is_counted_if_a_rule_uses_the_number_of_calls(policy):
    gear = Switchgear.local(local_policies=policy)
    search = gear.guard("search")(answers)
    for _ in range(7):
        search()
    assert breaker_of(gear).quiet is None
    assert breaker_of(gear).counts(time.monotonic()).total_calls == 7


def test_the_fast_path_respects_the_limits_of_a_session(gear):
    search = gear.guard("search")(answers)
    search()
    with gear.session(max_calls=1):
        search()
        with pytest.raises(CircuitOpenError, match="session"):
            search()
    assert search() == "found"


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_the_fast_path_refuses_with_the_same_rejection_as_try_acquire(gear):
    search = gear.guard("search")(answers)
    open_up(gear)
    with pytest.raises(CircuitOpenError) as caught:
        search()
    asked = gear.try_acquire("search")
    quick = caught.value.rejection
    assert 0 < asked.retry_after_s <= quick.retry_after_s <= 60
    for name in ("tool", "state", "source", "reason", "last_error", "fallback", "generation"):
        assert getattr(quick, name) == getattr(asked, name), name


def test_the_text_of_a_refusal_is_made_when_it_is_read(gear):
    search = gear.guard("search")(answers)
    open_up(gear)
    with pytest.raises(CircuitOpenError) as caught:
        search()
    assert set(vars(caught.value)) == set()
    assert "Do not call it again within the next 60 s" in caught.value.text
    assert caught.value.message.startswith("The local circuit of search is open (consecutive_failures); try again in")
    assert caught.value.hint == ""
    assert not hasattr(caught.value, "anything_else")


def test_the_last_error_of_a_refusal_is_redacted_and_renewed(gear):
    search = gear.guard("search")(answers)
    late = gear.try_acquire("search")
    for _ in range(2):
        gear.try_acquire("search").failure(DownError("token=abcdefgh123"))
    with pytest.raises(CircuitOpenError) as caught:
        search()
    assert caught.value.last_error == "DownError: token=[redacted]"
    late.failure(DownError("later"))
    with pytest.raises(CircuitOpenError) as caught:
        search()
    assert caught.value.last_error == "DownError: later"


def test_when_the_wait_is_over_the_next_call_is_a_probe(gear):
    search = gear.guard("search")(answers)
    gear._decision.local.get("search").breaker.transition_to("open", time.monotonic(), actor="test", open_for_s=0.05)
    with pytest.raises(CircuitOpenError):
        search()
    time.sleep(0.06)
    assert search() == "found"
    assert breaker_of(gear).state == "closed"


# -- what is left for the background ----------------------------------------------------------------------------------


def test_a_success_leaves_a_tuple_and_the_background_makes_the_event_of_it(connected):
    search = connected.guard("search")(answers)
    search()
    before = time.time()
    search()
    first, second = connected._emitter.buffer.take(10)
    assert isinstance(first[0], Event)
    assert second[0] == "search"
    ((value,),) = (
        run.values
        for run in encode_items(
            [second],
            emitter_id="me",
            service="planner",
            clock_offset=time.time() - time.monotonic(),
            failed=pytest.fail,
        )
    )
    found = ToolExecution.model_validate_json(value)
    assert (found.tool_name, found.status, found.emitter_id, found.service) == ("search", "success", "me", "planner")
    assert found.metric_id.version == 7
    assert 0 <= found.execution_time_ms < 1_000
    assert before - 0.1 <= found.recorded_at.timestamp() <= time.time() + 0.1
    assert found.generation is None  # the circuits were not read yet


def test_the_fast_path_drops_the_oldest_event_of_a_full_buffer(connected):
    search = connected.guard("search")(answers)
    connected._emitter.buffer.limit = 10
    guarded = connected.guard("search")(answers)
    search()
    for _ in range(30):
        guarded()
    assert len(connected._emitter.buffer) == 10
    assert connected.status().emitter.dropped == 21


def test_after_closing_calls_are_guarded_and_nothing_is_kept():
    gear = Switchgear(NO_BROKER, local_policies=QUICK)
    search = gear.guard("search")(answers)
    search()
    gear.close(0)
    held = len(gear._emitter.buffer)
    for _ in range(100):
        assert search() == "found"
    assert len(gear._emitter.buffer) == held


def test_an_event_names_the_generation_of_the_fleets_circuit():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    sent = []
    send = gear._emitter._send
    gear._emitter._send = lambda tool, value, urgent: (sent.append(json.loads(value)), send(tool, value, urgent))
    search = gear.guard("search")(answers)
    for _ in range(3):
        search()
    assert [each["status"] for each in sent] == ["success"] * 3
    assert {each.get("generation") for each in sent} == {0}


@pytest.mark.slow
def test_threads_fail_together_and_not_one_failure_is_lost():
    gear = Switchgear.local(local_policies=BreakerPolicy(failure_count=10**9, sliding_window_size=600))
    search = gear.guard("search")(lambda work: work())
    search(answers)
    start = threading.Barrier(4)

    def work():
        start.wait(ANSWER_S)
        for number in range(1_000):
            try:
                search(down if number % 3 == 0 else answers)
            except DownError:
                continue

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert breaker_of(gear).counts(time.monotonic()).total_failed == 4 * 334


@pytest.mark.parametrize("tool", ["search", "mcp:server:search"])
@pytest.mark.parametrize("local", [True, False])
async def test_the_traceback_of_a_failing_tool_shows_the_line_that_called_it(connected, local, tool):
    gear = Switchgear.local() if local else connected

    @gear.guard(tool)
    async def adown():
        down()

    gear.guard(tool)(answers)()  # the first call takes the exact way: there was no circuit yet
    with pytest.raises(DownError) as caught:
        gear.guard(tool)(down)()
    assert "result = (function(*args" in "".join(traceback.format_exception(caught.value))
    gear.guard(tool)(answers)()  # ends the run of failures
    with pytest.raises(DownError) as caught:
        await adown()
    assert "result = await (function(*args" in "".join(traceback.format_exception(caught.value))
