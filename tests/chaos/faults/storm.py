"""A rebalance storm: workers that join and leave every few seconds."""

from __future__ import annotations

import asyncio

from tests.chaos.faults.kind import Kind
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

EVERY_S = 3.0


async def _storm(stage: Stage, planned: Planned) -> str:
    joined = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + planned.seconds
    guests = []
    try:
        while loop.time() < end:
            guests.append(stage.fleet.add("worker", f"guest-{planned.choice % 1000}-{joined}", stage.starts("worker")))
            joined += 1
            await asyncio.sleep(EVERY_S)
            if len(guests) > 1:
                await stage.fleet.retire(guests.pop(0), kill=joined % 3 == 0)
    finally:
        for guest in guests:
            await stage.fleet.retire(guest)
    return f"{joined} workers joined and left"


def kinds() -> dict[str, Kind]:
    """``rebalance-storm``."""
    return {"rebalance-storm": Kind(Span("worker", 9, 15), _storm)}
