"""interlock with its RedisStorage: each process judges its own calls, and shares an open circuit and its probes.

In virtual time a class in Python takes the place of the storage: it does what the Lua scripts of the real one do. The engine, the
coordinator and the rules are the library's. Its background thread is replaced by actions of the agenda: a write runs at once, and a poll
each ``poll_interval``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import interlock
from interlock.integrations.redis import RedisStorage
from interlock.shared import ProbeLease, SharedState
from interlock.state import State

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.place import Contender, Place
from tests.bench.fleet.virtual_redis import LATENCY_S
from tests.bench.fleet.world import World

SLOW_SHARE = 0.5


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a breaker for each tool, over one storage."""
    timing, world = place.timing, place.world
    config = interlock.Config(
        slow_call_duration_threshold=timing.slow_after_s,
        slow_call_rate_threshold=SLOW_SHARE,
        permitted_calls_in_half_open=1,
        wait_duration_in_open=float(timing.wait_s),
    )

    def guard(tool: str) -> Guard:
        name = place.prefix + tool
        if world is None:
            breaker = interlock.CircuitBreaker(name=name, config=config, storage=RedisStorage(place.redis()))
        else:
            breaker = interlock.CircuitBreaker(
                name=name, config=config, clock=_VirtualClock(world), storage=_VirtualStorage(world)
            )
            _drive(world, breaker._engine._sync_coordinator)
        return breaker.call_sync

    return guard


class _VirtualClock:
    def __init__(self, world: World) -> None:
        self.monotonic = world.now


def _drive(world: World, coordinator: Any) -> None:
    """Run the work of the background thread as actions of the agenda."""
    coordinator._start_lane_locked = lambda: None
    coordinator._enqueue = lambda op: world.spawn(lambda: coordinator.execute_op(op))

    def lane() -> None:
        while True:
            world.sleep(coordinator._interval)
            coordinator.poll_once()

    world.agenda.after(world.rng.random() * coordinator._interval, world.spawn, lane)


class _VirtualStorage:
    """The scripts of RedisStorage, version 2.8.2, with a latency. The key is the breaker's name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[str, SharedState] = world.once("interlock", dict)

    def _arrive(self, name: str) -> SharedState:
        self._world.sleep(LATENCY_S)
        return self._states.get(name, SharedState.closed())

    def read(self, name: str) -> SharedState | None:
        self._world.sleep(LATENCY_S)
        return self._states.get(name)

    def trip_open(self, *, name: str, ttl: float, expected_version: int | None = None) -> SharedState:
        found = self._arrive(name)
        if expected_version in {None, found.version} and found.state is not State.OPEN:
            fresh = SharedState.closed()
            found = replace(fresh, state=State.OPEN, opened_at=self._world.wall(), version=found.version + 1)
            self._states[name] = found
        return found

    def begin_half_open_if_elapsed(self, *, name: str, wait_duration: float, permitted: int, ttl: float) -> SharedState:
        found = self._arrive(name)
        if found.state is State.OPEN and self._world.wall() - found.opened_at >= wait_duration:
            found = self._states[name] = replace(
                found,
                state=State.HALF_OPEN,
                version=found.version + 1,
                probes_permitted=permitted,
                probes_remaining=permitted,
                probes_completed=0,
                probe_failures=0,
                probe_slows=0,
            )
        return found

    def lease_probe(self, *, name: str, ttl: float) -> ProbeLease:
        found = self._arrive(name)
        granted = found.state is State.HALF_OPEN and found.probes_remaining > 0
        if granted:
            found = self._states[name] = replace(
                found, probes_remaining=found.probes_remaining - 1, version=found.version + 1
            )
        return ProbeLease(granted=granted, state=found)

    def record_probe(self, *, name: str, outcome: Any, ttl: float) -> SharedState:
        found = self._arrive(name)
        if found.state is State.HALF_OPEN:
            found = self._states[name] = replace(
                found,
                version=found.version + 1,
                probes_completed=found.probes_completed + 1,
                probe_failures=found.probe_failures + outcome.is_failure,
                probe_slows=found.probe_slows + outcome.is_slow,
            )
        return found

    def close(self, *, name: str, ttl: float, expected_version: int | None = None) -> SharedState:
        found = self._arrive(name)
        if expected_version in {None, found.version}:
            found = self._states[name] = replace(SharedState.closed(), version=found.version + 1)
        return found


CONTENDER = Contender(
    name="interlock, Redis",
    distribution="interlock-cb",
    shares="state, polled each second, and probes",
    note="Half of at least ten calls of a process failed, or were slow. The wait, one probe and the slow-call rule are set.",
    refusals=(interlock.CircuitOpenError,),
    guards=guards,
    needs="redis",
)
