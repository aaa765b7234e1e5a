"""Housekeeping: what a client does once a second in the background."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.decision import Gate
    from switchgear.guard.fleet_state import Availability
    from switchgear.telemetry.dispatch import HookList


EVERY_S: Final = 1.0


class Housekeeping:
    """Sends refusals that waited for their second, tells the hooks what was lost, and looks at the age of the fleet's state.

    Refusals that still wait when the interpreter ends, or the emitter is closed, are sent then; from then on calls look themselves.
    """

    def __init__(self, gate: Gate, emitter: Emitter, availability: Availability | None, hooks: HookList | None) -> None:
        self._gate = gate
        self._emitter = emitter
        self._availability = availability
        self._hooks = hooks
        self._told_drops = 0
        if gate.fleet is not None:
            emitter.before_close.append(functools.partial(gate.fleet.refusals.sweep, everything=True))
        if availability is not None:
            emitter.before_close.append(availability.end)

    async def run(self) -> None:
        """For ever."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        while True:
            self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        """Once."""
        if self._availability is not None:
            self._availability.look()
        if self._gate.fleet is not None:
            self._gate.fleet.refusals.sweep()
        if self._gate.reporter.hooks is not None:
            self._gate.reporter.hooks.run()
        if self._hooks is not None and "on_drop" in self._hooks.wants:
            dropped = self._emitter.status().dropped
            if dropped > self._told_drops:
                self._hooks.on_drop(dropped - self._told_drops)
            self._told_drops = dropped  # lower again in a forked child
