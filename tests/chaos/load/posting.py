"""A client of the gateways under load, on plain HTTP. It sends each event until a gateway acknowledges or rejects it."""

from __future__ import annotations

import argparse
import asyncio
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.ledger import LedgerWriter, Offered
from tests.chaos.load.emitting import event
from tests.support.resending import ResendingClient

SENDERS = 3
PAUSE_S = (0.1, 0.3)
"""Between two batches of a sender. Requests cost more than events, and the load shares two processors with all that it tests."""
TIMEOUT_S = 3.0
"""It gives up on a gateway that is stopped or cut off before the fault ends, and sends the same events to the other one."""
MOST_IN_BATCH = 50
FLUSH_S = 12.0


class Poster:
    """Sends batches to the gateways, and notes the outcome of each event in the ledger."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._chance = random.Random(given.seed)
        self._emitter_id = f"poster-{uuid.UUID(int=self._chance.getrandbits(128), version=4)}"
        self._ledger = LedgerWriter(given.ledger)
        self._rate = given.rate / SENDERS
        self._numbers: dict[str, int] = {}
        self._client = ResendingClient(
            given.servers,
            chance=self._chance,
            timeout_s=TIMEOUT_S,
            acknowledged=self._acknowledged,
            rejected=lambda each, reason: self._ledger.refused(self._numbers.pop(each["metric_id"]), reason),
        )

    async def run(self, stop: threading.Event) -> None:
        """Send events until ``stop`` is set and each sent event is answered."""
        async with asyncio.TaskGroup() as senders:
            for _ in range(SENDERS):
                senders.create_task(self._send(stop))
        await self._client.close()

    async def _send(self, stop: threading.Event) -> None:
        last = time.monotonic()
        while not stop.is_set():
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))
            now = time.monotonic()
            count, last = min(MOST_IN_BATCH, int((now - last) * self._rate) or 1), now
            batch = [event(self._chance, self._emitter_id) for _ in range(count)]
            at = time.clock_gettime(time.CLOCK_REALTIME)
            first = self._ledger.offer(
                Offered(each["metric_id"], each["tool_name"], each["status"], at) for each in batch
            )
            self._numbers |= {each["metric_id"]: first + place for place, each in enumerate(batch)}
            await self._client.send(batch)

    def _acknowledged(self, found: Sequence[Mapping[str, Any]]) -> None:
        for each in found:
            number = self._numbers.pop(each["metric_id"])
            self._ledger.acknowledged(number, number)


def post(given: argparse.Namespace, stop: threading.Event) -> None:
    """Send events until ``stop`` is set."""

    async def until_stopped() -> None:
        poster = asyncio.create_task(Poster(given).run(stop))
        stopped = asyncio.create_task(asyncio.to_thread(stop.wait))
        await asyncio.wait([poster, stopped], return_when=asyncio.FIRST_COMPLETED)
        done, _ = await asyncio.wait([poster], timeout=FLUSH_S)
        poster.cancel()
        for task in done:
            task.result()  # raises what it died of

    try:
        asyncio.run(until_stopped())
    finally:
        stop.set()  # ends the thread that waits for it
