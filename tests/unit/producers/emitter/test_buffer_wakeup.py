"""The background is woken by events, and looks by itself if a wake-up was lost."""

from __future__ import annotations

import asyncio

from switchgear.emitter import buffer as module
from switchgear.emitter.buffer import Wakeup

LONG_S = 60.0


async def ends(waiting):
    """Check that it ends, with time for a slow machine."""
    await asyncio.wait_for(waiting, LONG_S / 2)


async def test_a_new_wakeup_is_set():
    await ends(Wakeup().wait(LONG_S))


async def test_set_ends_the_wait():
    wakeup = Wakeup()
    wakeup.clear()
    waiting = asyncio.ensure_future(wakeup.wait(LONG_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.set(False)
    await ends(waiting)


async def test_a_wait_without_a_wakeup_ends(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.02)
    wakeup = Wakeup()
    for limit_s in (LONG_S, 0.0):
        wakeup.clear()
        await ends(wakeup.wait(limit_s))


async def test_only_an_urgent_wakeup_ends_the_linger():
    wakeup = Wakeup()
    waiting = asyncio.ensure_future(wakeup.linger(LONG_S))
    await asyncio.sleep(0)
    wakeup.set(False)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    wakeup.set(True)
    await ends(waiting)


async def test_a_linger_of_zero_seconds_ends_at_once():
    await ends(Wakeup().linger(0.0))
