"""The bytes in flight through one producer are bounded."""

from __future__ import annotations

import asyncio

from switchgear.emitter.producer import MOST_IN_FLIGHT, Link


async def test_a_batch_waits_until_others_in_flight_are_answered():
    link = Link(None, "executions", 1)
    third = MOST_IN_FLIGHT // 3
    answers = [asyncio.Event() for _ in range(5)]
    under_way = []

    async def send(number):
        async with link.carrying(third):
            under_way.append(number)
            await answers[number].wait()

    tasks = [asyncio.create_task(send(number)) for number in range(5)]
    await asyncio.sleep(0.01)
    assert under_way == [0, 1, 2]
    answers[1].set()
    await asyncio.sleep(0.01)
    assert under_way == [0, 1, 2, 3]
    for answer in answers:
        answer.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert under_way == [0, 1, 2, 3, 4]


async def test_a_batch_larger_than_the_limit_in_flight_goes_alone():
    link = Link(None, "executions", 1)
    async with asyncio.timeout(5), link.carrying(2 * MOST_IN_FLIGHT):
        waiting = asyncio.create_task(link.carrying(1).__aenter__())
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 5)


async def test_a_batch_that_is_cancelled_while_it_waits_counts_as_not_in_flight():
    link = Link(None, "executions", 1)
    async with link.carrying(MOST_IN_FLIGHT):
        waiting = asyncio.create_task(link.carrying(1).__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
    async with asyncio.timeout(5), link.carrying(MOST_IN_FLIGHT):
        pass
    assert link._idle.is_set()
