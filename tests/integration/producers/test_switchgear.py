"""The guard and the fleet: open circuits refuse in every process, one leased call probes."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear_schemas.wire import decode_execution
from tests.integration.producers.circuits import circuit, executions, lease, publish
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.waiting import auntil, until


@pytest.fixture
def make_gear(settings):
    made = []

    def make(**options):
        gear = Switchgear(settings.kafka, topic_prefix=settings.topic_prefix, **options)
        made.append(gear)
        assert gear.start(HAPPEN_S)
        wait_for_producer(gear)
        return gear

    yield make
    for gear in made:
        gear.close(10)


@pytest.fixture
def gear(make_gear):
    """A client that waits long for its leases: a busy machine takes its time to play the owner."""
    return make_gear(service="planner", probe_wait=10.0)


def wait_for_producer(gear):
    assert gear._emitter.connect(30)


async def owner(settings, answer, *, requests=1, seconds=20.0):
    """Play the owner: for each probe request, publish what ``answer(event)`` gives. Returns the requests seen."""
    seen = []
    consumer = await executions(settings)
    try:
        deadline = time.monotonic() + seconds
        while len(seen) < requests and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    event = decode_execution(record.value)
                    if event.probe_requested:
                        seen.append(event)
                        reply = answer(event)
                        if reply is not None:
                            await publish(settings, reply)
    finally:
        await consumer.stop()
    return seen


async def test_a_circuit_opened_by_the_fleet_refuses_in_every_process_and_closes_again(settings, make_gear):
    gears = [await asyncio.to_thread(make_gear, service=name) for name in ("a", "b")]
    await publish(settings, circuit("t", "open", 1, last_error="TimeoutError: x"))
    await auntil(lambda: all(not gear.try_acquire("t") for gear in gears), HAPPEN_S)
    with pytest.raises(CircuitOpenError) as refused:
        await gears[0].acall("t", asyncio.sleep, 0)
    assert refused.value.source == "fleet"
    await publish(settings, circuit("t", "closed", 2))
    await auntil(lambda: all(gear.try_acquire("t") for gear in gears), HAPPEN_S)


async def test_every_call_is_in_the_log_and_refusals_in_bounded_number(settings, gear):
    for _ in range(10):
        gear.try_acquire("t").success()
    gear.try_acquire("t").failure(ConnectionError("refused"))
    await publish(settings, circuit("t", "open", 1))
    await auntil(lambda: not gear.try_acquire("t"), HAPPEN_S)
    for _ in range(5_000):
        assert not gear.try_acquire("t")
    assert await asyncio.to_thread(gear.flush, 20)
    consumer = await executions(settings)
    found = []
    deadline = time.monotonic() + ANSWER_S
    while sum(event.get("metadata", {}).get("refused", 0) for event in found) < 5_001 and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found.extend(json.loads(record.value) for record in records)
    await consumer.stop()
    refusals = [event for event in found if event["status"] == "rejected"]
    assert sum(event["metadata"]["refused"] for event in refusals) == 5_001
    assert len(refusals) <= 10
    assert [event["error_class"] for event in found if event["status"] == "error"] == ["transport"]
    assert sum(event["status"] == "success" for event in found) == 10


async def test_after_the_cooldown_one_call_asks_gets_a_lease_and_probes(settings, gear):
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    playing = asyncio.ensure_future(
        owner(settings, lambda event: circuit("t", "half_open", 2, until=0.0, leases=(lease(event.emitter_id),)))
    )
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    permit = await gear.atry_acquire("t", user_id="u")
    waited = time.perf_counter() - began
    assert permit
    assert (permit.lease_id, permit.generation, permit.probe) == ("lease-1", 2, True)
    assert waited < 5, "the lease ends the wait"
    assert not await gear.atry_acquire("t"), "the lease is for one call"
    (request,) = await playing
    assert (request.status, request.user_id, request.emitter_id) == ("rejected", "u", gear._emitter.emitter_id)
    permit.success()
    await publish(settings, circuit("t", "closed", 3))
    await auntil(lambda: gear.try_acquire("t"), HAPPEN_S)
    assert await asyncio.to_thread(gear.flush, 20)
    events = await everything(settings)
    probe = next(event for event in events if event.lease_id)
    assert (probe.status, probe.lease_id, probe.generation) == ("success", "lease-1", 2)


async def everything(settings):
    consumer = await executions(settings)
    ends = await consumer.end_offsets(consumer.assignment())
    found = []
    while len(found) < sum(ends.values()):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found.extend(decode_execution(record.value) for record in records)
    await consumer.stop()
    return found


def test_a_synchronous_call_waits_for_its_lease(settings, gear):
    asyncio.run(publish(settings, circuit("t", "open", 1, until=0.0)))
    until(lambda: "t" in gear.circuits())
    emitter_id = gear._emitter.emitter_id

    async def scene():
        playing = asyncio.ensure_future(
            owner(settings, lambda _event: circuit("t", "half_open", 2, until=0.0, leases=(lease(emitter_id),)))
        )
        await asyncio.sleep(1.0)
        result = await asyncio.to_thread(gear.call, "t", lambda: "probed")
        await playing
        return result

    assert asyncio.run(scene()) == "probed"


async def test_fifty_calls_at_the_end_of_the_cooldown_make_one_request_and_one_probe(settings, gear):
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    playing = asyncio.ensure_future(
        owner(
            settings,
            lambda event: circuit("t", "half_open", 2, until=0.0, leases=(lease(event.emitter_id),)),
            requests=2,
            seconds=8.0,
        )
    )
    await asyncio.sleep(1.0)
    answers = await asyncio.gather(*(gear.atry_acquire("t") for _ in range(50)))
    assert sum(map(bool, answers)) == 1
    assert len(await playing) == 1


async def test_two_clients_probe_exactly_once_when_one_lease_is_granted(settings, make_gear):
    gears = [await asyncio.to_thread(make_gear, service=name, probe_wait=4.0) for name in ("a", "b")]
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: all("t" in gear.circuits() for gear in gears), HAPPEN_S)
    granted = []

    def first_only(event):
        if granted:
            return None
        granted.append(event.emitter_id)
        return circuit("t", "half_open", 2, until=0.0, leases=(lease(event.emitter_id),))

    playing = asyncio.ensure_future(owner(settings, first_only, requests=2, seconds=12.0))
    await asyncio.sleep(1.0)
    answers = await asyncio.gather(*(gear.atry_acquire("t") for gear in gears for _ in range(10)))
    assert sum(map(bool, answers)) == 1
    await playing
    assert len(granted) == 1


async def test_an_unanswered_request_is_a_refusal_after_the_wait_and_the_next_ones_do_not_wait(settings, make_gear):
    gear = await asyncio.to_thread(make_gear)
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    began = time.perf_counter()
    assert not await gear.atry_acquire("t")
    first = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(100):
        assert not await gear.atry_acquire("t")
    rest = time.perf_counter() - began
    assert 0.2 <= first < 10
    assert rest < 10, "a hundred waits would take 25 s"


async def test_the_loop_is_free_while_a_call_waits_for_its_lease(settings, make_gear):
    gear = await asyncio.to_thread(make_gear)
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    await gear.atry_acquire("t")
    ticking.cancel()
    assert ticks >= 5


async def test_a_cancelled_wait_leaks_nothing(settings, make_gear):
    gear = await asyncio.to_thread(make_gear, probe_wait=30.0)
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    asking = asyncio.ensure_future(gear.atry_acquire("t"))
    await asyncio.sleep(0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert gear._decision.fleet._waiting == {}
    await publish(settings, circuit("t", "half_open", 2, until=0.0, leases=(lease(gear._emitter.emitter_id),)))
    await auntil(lambda: gear.circuits()["t"].version == 2, HAPPEN_S)
    assert (await gear.atry_acquire("t")).lease_id == "lease-1"


async def test_the_local_breaker_takes_over_when_no_worker_owns_the_circuit(settings, make_gear):
    gear = await asyncio.to_thread(
        make_gear, probe_wait=0.05, fleet_silence=1.0, local_policies=BreakerPolicy(consecutive_failures=1)
    )
    await publish(settings, circuit("t", "open", 1, until=0.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    deadline = time.monotonic() + ANSWER_S
    while not (permit := await gear.atry_acquire("t")):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert permit.lease_id is None
    permit.failure(TimeoutError())
    assert (await gear.atry_acquire("t")).source == "local"


async def test_a_clock_that_is_wrong_by_seconds_makes_no_probe_of_its_own(settings, make_gear):
    """Our clock is ahead: the owner, by the broker's clock, grants nothing yet. The call is refused, not let through."""
    gear = await asyncio.to_thread(make_gear)
    await publish(settings, circuit("t", "open", 1, until=2.0))
    await auntil(lambda: "t" in gear.circuits(), HAPPEN_S)
    gear._decision.fleet.wall = lambda: time.time() + 5
    playing = asyncio.ensure_future(owner(settings, lambda _event: None, seconds=5.0))
    assert not await gear.atry_acquire("t")
    assert len(await playing) == 1


async def test_closing_sends_everything_and_calls_go_on(settings, gear):
    for _ in range(100):
        gear.try_acquire("t").success()
    assert await gear.aclose(ANSWER_S)
    assert gear.status().emitter.acknowledged == 100
    assert gear.try_acquire("t")
    assert gear.call("t", lambda: 7) == 7
    assert len(await everything(settings)) == 100


async def test_the_log_keeps_the_callers_clock(settings, gear):
    before = datetime.now(UTC)
    gear.try_acquire("t").success()
    assert await asyncio.to_thread(gear.flush, 20)
    (event,) = await everything(settings)
    assert before <= event.recorded_at <= datetime.now(UTC)
