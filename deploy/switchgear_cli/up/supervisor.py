"""Starts components, notices their death, starts them again, and ends them in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from switchgear_cli.up.component import Component
from switchgear_cli.up.supervision import Phase, Watch, became_ready, died, due, spawned, stopped
from switchgear_schemas.errors import SwitchgearError

_STEP_S: Final = 0.1
_TEND_EVERY_S: Final = 5.0
# A component that dies this often before it was ever ready will not get better by itself.
START_ATTEMPTS: Final = 3


@dataclass(slots=True)
class Supervised:
    """A component and what is known of it."""

    component: Component
    watch: Watch


class Supervisor:
    """Owner of the child processes. Everything but ``is_ready`` runs in the main thread.

    Args:
        clock: Monotonic seconds.
        notify: Told of every change of phase, after it.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        notify: Callable[[Supervised], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._notify = notify
        self._tended_at = clock()
        self.all: list[Supervised] = []

    def start(self, component: Component) -> None:
        """Start a component and watch it from now on."""
        supervised = Supervised(component, Watch())
        self.all.append(supervised)
        self._spawn(supervised)

    async def step(self) -> None:
        """Look at each component once, and do what is due."""
        now = self._clock()
        for supervised in self.all:
            watch, component = supervised.watch, supervised.component
            if watch.phase in {Phase.STARTING, Phase.RUNNING}:
                how = component.ended()
                if how is not None:
                    self._change(supervised, died(watch, now, how))
                elif watch.phase is Phase.STARTING and await component.is_ready():
                    self._change(supervised, became_ready(watch, self._clock()))
            elif due(watch, now):
                self._spawn(supervised)
        if now - self._tended_at >= _TEND_EVERY_S:
            self._tended_at = now
            for supervised in self.all:
                supervised.component.tend()

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(_STEP_S)

    async def wait_ready(self, names: Sequence[str], timeout_s: float) -> None:
        """Until these components were ready once, while ``run`` runs elsewhere.

        Raises:
            SwitchgearError: One died ``START_ATTEMPTS`` times before it was ready, or the time is over; it says which,
                what it said last, and where its log is.
        """
        deadline = self._clock() + timeout_s
        waiting = [supervised for supervised in self.all if supervised.component.name in names]
        while not all(supervised.watch.ever_ready for supervised in waiting):
            for supervised in waiting:
                watch, component = supervised.watch, supervised.component
                if not watch.ever_ready and watch.streak >= START_ATTEMPTS:
                    raise SwitchgearError(
                        f"The {component.name} ended {watch.streak} times before it was ready ({watch.problem}).",
                        hint=f"Its log: {component.log_file}.",
                    )
                if not watch.ever_ready and self._clock() >= deadline:
                    raise SwitchgearError(
                        f"The {component.name} was not ready within {timeout_s:.0f} s.",
                        hint=f"Its log: {component.log_file}.",
                    )
            await asyncio.sleep(_STEP_S / 2)

    async def stop(self, names: Sequence[str], timeout_s: float, hurry: asyncio.Event) -> None:
        """End these components together: SIGTERM, then SIGKILL after ``timeout_s`` seconds or at once on ``hurry``.

        Nobody steps any more: what ends now is not started again.
        """
        ending = [supervised for supervised in self.all if supervised.component.name in names]
        for supervised in ending:
            supervised.component.terminate()
        deadline = self._clock() + timeout_s
        while any(supervised.component.pid is not None for supervised in ending):
            if hurry.is_set() or self._clock() >= deadline:
                break
            await asyncio.sleep(_STEP_S / 5)
        for supervised in ending:
            supervised.component.kill()
            self._change(supervised, stopped(supervised.watch, self._clock()))

    def _spawn(self, supervised: Supervised) -> None:
        now = self._clock()
        try:
            supervised.component.spawn()
        except SwitchgearError as error:
            self._change(supervised, died(spawned(supervised.watch, now), now, str(error)))
        else:
            self._change(supervised, spawned(supervised.watch, now))

    def _change(self, supervised: Supervised, watch: Watch) -> None:
        before, supervised.watch = supervised.watch, watch
        if watch.phase is not before.phase:
            self._notify(supervised)
