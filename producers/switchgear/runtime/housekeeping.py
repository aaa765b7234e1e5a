"""The client's work once a second in the background."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from switchgear.guard.fleet_circuits import FleetCircuits
    from switchgear.guard.fleet_state import Availability
    from switchgear.telemetry.hooks import HookList


EVERY_S: Final = 1.0


class Housekeeping:
    """Sends summed-up refusals, calls the hooks, reports dropped events, and checks the age of the fleet's state.

    Refusals that still wait at the end are sent when the emitter closes.
    """

    def __init__(self, fleet: FleetCircuits, availability: Availability, hooks: HookList | None) -> None:
        self._refusals = fleet.refusals
        self._emitter = emitter = fleet.emitter
        self._availability = availability
        self._hooks = hooks
        self._reported_drops = 0
        emitter.before_close.append(functools.partial(self._refusals.sweep, everything=True))
        emitter.before_close.append(availability.end)

    async def run(self) -> None:
        """Call :meth:`look` every second until cancelled."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        while True:
            self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        """Do the work once."""
        self._availability.look()
        self._refusals.sweep()
        if self._hooks is None:
            return
        self._hooks.run_waiting()
        if "on_drop" in self._hooks.wants:
            dropped = self._emitter.status().dropped
            if dropped > self._reported_drops:
                self._hooks.on_drop(dropped - self._reported_drops)
            self._reported_drops = dropped  # lower again in a forked child
