"""An emitter whose clock is ten minutes off joins for a while."""

from __future__ import annotations

import asyncio

from tests.chaos.faults.kind import Kind
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

OFF_S = 600.0
RATE = 100.0


async def _off(stage: Stage, planned: Planned) -> str:
    clock = OFF_S if planned.choice % 2 else -OFF_S
    guest = stage.fleet.add("emitter", f"clock-{planned.choice % 10_000}", stage.loads("emit", RATE, clock))
    try:
        await asyncio.sleep(planned.seconds)
    finally:
        code = await stage.fleet.retire(guest)
    return f"{guest.name}, {clock:+.0f} s, ended with {code}"


def kinds() -> dict[str, Kind]:
    """``clock-off``."""
    return {"clock-off": Kind(Span("clock", 4, 8), _off)}
