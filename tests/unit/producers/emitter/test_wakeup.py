"""The doorbell is heard, and who waits for it looks by itself where a ring was lost."""

from __future__ import annotations

import asyncio

from switchgear.emitter.wakeup import Wakeup

LONG_S = 60.0


async def ends(waiting):
    """It does, with time for a slow machine."""
    await asyncio.wait_for(waiting, LONG_S / 2)


async def test_a_new_one_rings():
    await ends(Wakeup().heard(LONG_S))


async def test_a_ring_ends_the_wait():
    bell = Wakeup()
    bell.reset()
    waiting = asyncio.ensure_future(bell.heard(None))
    await asyncio.sleep(0)
    assert not waiting.done()
    bell.ring(urgent=False)
    await ends(waiting)


async def test_nobody_waits_for_ever_for_a_ring():
    bell = Wakeup()
    for limit_s in (None, LONG_S, 0.0):
        bell.reset()
        await ends(bell.heard(limit_s))


async def test_an_urgent_ring_ends_the_linger_and_another_does_not():
    bell = Wakeup()
    waiting = asyncio.ensure_future(bell.linger(LONG_S))
    await asyncio.sleep(0)
    bell.ring(urgent=False)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    bell.ring(urgent=True)
    await ends(waiting)


async def test_no_linger_is_none():
    await ends(Wakeup().linger(0.0))
