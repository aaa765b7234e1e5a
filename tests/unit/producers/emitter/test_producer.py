"""The batches in flight through one producer are bounded."""

from __future__ import annotations

import asyncio

from switchgear.emitter.producer import MOST_IN_FLIGHT, Link
from tests.support.limits import ANSWER_S
from tests.unit.producers.emitter.test_outbox import Answering


async def test_a_retired_producer_is_closed_when_its_last_batch_is_answered():
    closed = []

    class Closing(Answering):
        async def stop(self):
            closed.append(True)

    link = Link(Closing(None), "executions")
    async with link.slots:
        closing = asyncio.create_task(link.close_when_idle())
        await asyncio.sleep(0.01)
        assert not closed
    await asyncio.wait_for(closing, ANSWER_S)
    assert closed == [True]


async def test_a_batch_waits_when_the_most_are_in_flight():
    link = Link(None, "executions")
    for _ in range(MOST_IN_FLIGHT):
        await link.slots.acquire()
    assert link.slots.locked()
    link.slots.release()
    async with asyncio.timeout(ANSWER_S), link.slots:
        pass
