"""Switchgear: the real client in each process and the real fold of the worker, on the time of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchgear import BreakerPolicy, CircuitOpenError, GuardOptions, Switchgear
from tests.bench.benefit.arms.arm import Arm, Fleet, Make, RefusedError, ToolCaller
from tests.bench.benefit.virtual_fleet import VirtualFleet

TOKEN = "one token for all agents"
OPTIONS = GuardOptions(credential=lambda _make: TOKEN)


class SwitchgearCaller(ToolCaller):
    """A process with a client."""

    def __init__(self, gear: Switchgear) -> None:
        self.gear = gear
        self._guarded: dict[str, Callable[[Make], Any]] = {}

    def guarded(self, tool: str, **options: Any) -> Callable[[Make], Any]:
        """Return the guarded function that makes calls of ``tool``."""
        found = self._guarded.get(tool)
        if found is None:

            async def made(make: Make) -> Any:
                return await make(tool)

            found = self._guarded[tool] = self.gear.guard(tool, **options)(made)
        return found

    async def call(self, tool: str, make: Make) -> Any:
        try:
            return await self.guarded(tool)(make)
        except CircuitOpenError as error:
            raise RefusedError(error.text, error.retry_after_s) from None


class SwitchgearFleet(Fleet):
    """Processes with clients.

    Args:
        caller: Makes a process of a client.
        policy: The fleet's policy of all tools, if it isn't the default.
        options: Arguments of the clients.
    """

    def __init__(
        self,
        caller: Callable[[Switchgear], ToolCaller] = SwitchgearCaller,
        policy: BreakerPolicy | None = None,
        **options: Any,
    ) -> None:
        self._fleet = VirtualFleet(policy)
        self._caller = caller
        self._options = options

    def process(self, number: int) -> ToolCaller:
        return self._caller(self._fleet.client(f"agent{number}", defaults=OPTIONS, **self._options))

    def close(self) -> None:
        self._fleet.close()


ARM = Arm("Switchgear", "the client with its defaults, and texts of refusals alone: no message", 6, SwitchgearFleet)
