"""A service with guards under load. It calls tools that fail and recover, and measures every decision."""

from __future__ import annotations

import argparse
import random
import threading
import time
import uuid

from switchgear import Switchgear
from switchgear.policies import PolicySet
from switchgear_schemas.policy import BreakerPolicy
from tests.chaos.ledger import EmittedEvents, LedgerWriter, Offered
from tests.chaos.load.tools import GUARDED, is_down

LOAD_S = 5.0
FLUSH_S = 12.0
SLOW_S = 0.5
TICK_S = 0.02
SUMS_EVERY_S = 1.0
LOCAL = PolicySet(
    base=BreakerPolicy(consecutive_failures=8, wait_duration_in_open_state_s=1),
    family_base=BreakerPolicy(
        consecutive_failures=12,
        minimum_tools=2,
        wait_duration_in_open_state_s=1,
        counted_error_classes=frozenset({"transport", "timeout"}),
    ),
)


class Decisions:
    """The durations of the decisions."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._next = 0.0
        self.count = self.permits = 0
        self.worst = 0.0
        self.within_a_millisecond = 0

    def took(self, seconds: float, start: float, *, permitted: bool) -> None:
        """Add a decision."""
        self.count += 1
        self.permits += permitted
        self.worst = max(self.worst, seconds)
        self.within_a_millisecond += seconds <= 0.001
        if seconds > SLOW_S:
            self._ledger.slow(seconds, start)
        if start >= self._next:
            self._next = start + SUMS_EVERY_S
            self.write()

    def write(self) -> None:
        """Write the sums so far to the ledger."""
        self._ledger.sums(
            decisions=self.count,
            permits=self.permits,
            worst_s=round(self.worst, 6),
            within_a_millisecond=self.within_a_millisecond,
        )


def guard(given: argparse.Namespace, stop: threading.Event) -> None:
    """Make guarded calls until ``stop`` is set."""
    chance = random.Random(given.seed)
    ledger = LedgerWriter(given.ledger)
    gear = Switchgear(given.servers[0], topic_prefix=given.prefix, service="chaos-guard", local_policies=LOCAL)
    gear.start(LOAD_S)
    emitted, decisions = EmittedEvents(ledger), Decisions(ledger)
    due, last = 0.0, time.monotonic()
    while not stop.wait(TICK_S):
        now = time.monotonic()
        due, last = min(due + (now - last) * given.rate, given.rate), now
        while due >= 1:
            due -= 1
            call(gear, chance, ledger, emitted, decisions)
        look(gear, emitted)
    gear.flush(FLUSH_S)
    look(gear, emitted)
    decisions.write()
    gear.close(0.1)


def call(
    gear: Switchgear,
    chance: random.Random,
    ledger: LedgerWriter,
    emitted: EmittedEvents,
    decisions: Decisions,
) -> None:
    """Make one guarded call."""
    tool = chance.choice(GUARDED)
    key = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    start, began = time.clock_gettime(time.CLOCK_REALTIME), time.perf_counter()
    try:
        permit = gear.try_acquire(tool, request_id=key)
    except Exception as error:  # noqa: BLE001 - the promise is that a decision never raises
        ledger.raised(error)
        return
    decisions.took(time.perf_counter() - began, start, permitted=bool(permit))
    if not permit:
        return
    failed = is_down(tool)
    emitted.note(ledger.offer([Offered(key, tool, "error" if failed else "success", start)]))
    if failed:
        permit.failure(chance.choice((ConnectionError, TimeoutError))("the tool is down"))
    else:
        permit.success(output_size=100)


def look(gear: Switchgear, emitted: EmittedEvents) -> None:
    """Note the events that were acknowledged."""
    status = gear.status().emitter
    assert status is not None
    emitted.look(status)
