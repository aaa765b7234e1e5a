"""An emitter under load: a third of the events go through ``emit()``, the others through ``submit()``, which reports every event."""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
import uuid
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any

from switchgear.emitter.emitter import Emitter
from switchgear.emitter.status import Receipt
from tests.chaos.ledger import EmittedEvents, LedgerWriter, Offered
from tests.chaos.load.tools import EMITTED, EMITTED_OF_SERVER, FLAPPING, is_down

TICK_S = 0.04
MOST_OPEN = 200
"""Batches that may wait for their answers."""
FLUSH_S = 12.0
STATUSES = ("success", "error", "timeout", "cancelled", "rejected")
WEIGHTS = (88, 5, 3, 1, 3)
CLASSES = ("transport", "server", "tool", "invalid_input", "unknown")
FAILING = (*FLAPPING, *EMITTED_OF_SERVER)


def event(chance: random.Random, emitter_id: str) -> dict[str, Any]:
    """Return an execution with its own id."""
    tool = chance.choice(FAILING) if chance.random() < 0.16 else chance.choice(EMITTED)
    status, error_class = chance.choices(STATUSES, WEIGHTS)[0], chance.choice(CLASSES)
    if tool in FLAPPING:
        status, error_class = "error" if is_down(tool) else "success", "server"
    elif tool in EMITTED_OF_SERVER:
        status, error_class = outcome_of_server(chance, tool)
    made = {
        "metric_id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        "tool_name": tool,
        "status": status,
        "execution_time_ms": round(chance.lognormvariate(3, 1), 3),
        "input_size": chance.randrange(3_000),
        "emitter_id": emitter_id,
        "recorded_at": datetime.fromtimestamp(time.time(), UTC).isoformat(),
    }
    if status == "error":
        made["error_class"] = error_class
    return made


def outcome_of_server(chance: random.Random, tool: str) -> tuple[str, str]:
    """Return status and error class of a call. A server that is up answers, at times with an error."""
    if is_down(tool):
        return chance.choice(("error", "timeout")), "transport"
    return "error" if chance.random() < 0.1 else "success", chance.choice(("server", "tool", "unknown"))


class Load:
    """Emits events, and notes the outcome of each in the ledger."""

    def __init__(self, emitter: Emitter, ledger: LedgerWriter, chance: random.Random) -> None:
        self._emitter = emitter
        self._ledger = ledger
        self._chance = chance
        self._emitted = EmittedEvents(ledger)
        self._open: set[Future[Receipt]] = set()

    def tick(self, count: int) -> None:
        """Emit ``count`` events."""
        made = [event(self._chance, self._emitter.emitter_id) for _ in range(count)]
        now = time.clock_gettime(time.CLOCK_REALTIME)
        first = self._ledger.offer(Offered(each["metric_id"], each["tool_name"], each["status"], now) for each in made)
        part = count * 2 // 3 if len(self._open) < MOST_OPEN else 0
        for place, each in enumerate(made[part:], start=first + part):
            self._emitter.emit(each)
            self._emitted.note(place)
        if part:
            batch = [(each["tool_name"], json.dumps(each).encode()) for each in made[:part]]
            answer = self._emitter.submit(batch)
            self._open.add(answer)
            answer.add_done_callback(partial(self._answered, first))
        self.look()

    def look(self) -> None:
        """Note the events that were acknowledged meanwhile."""
        self._emitted.look(self._emitter.status())

    def _answered(self, first: int, answer: Future[Receipt]) -> None:
        self._open.discard(answer)
        if answer.cancelled() or answer.exception() is not None:
            return  # unknown
        receipt = answer.result()
        refused = dict(receipt.refused)
        for index in range(receipt.total):
            if index in refused:
                self._ledger.refused(first + index, refused[index])
        if not refused:
            self._ledger.acknowledged(first, first + receipt.total - 1)
        else:
            for index in set(range(receipt.total)) - set(refused):
                self._ledger.acknowledged(first + index, first + index)


def emit(given: argparse.Namespace, stop: threading.Event) -> None:
    """Emit events until ``stop`` is set."""
    ledger = LedgerWriter(given.ledger)
    emitter = Emitter(given.servers[0], topic_prefix=given.prefix, service="chaos")
    load = Load(emitter, ledger, random.Random(given.seed))
    due, last = 0.0, time.monotonic()
    while not stop.wait(TICK_S):
        now = time.monotonic()
        due = min(
            due + (now - last) * given.rate, given.rate
        )  # after a pause, the process catches up on one second at most
        last = now
        count = int(due)
        due -= count
        if count:
            load.tick(count)
    emitter.flush(FLUSH_S)
    load.look()
    emitter.close(0.1)
