"""The tools that all agents of a run share. One of them may break. The time is that of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from tests.bench.benefit.faults import BEGINS_S, ENDS_S, Failed, Fault, Hit

T = TypeVar("T")

REPLICA: Final = "_replica"
"""The end of the name of a tool that can stand in for another one. Replicas don't break."""
SLOWER: Final = 1.5
"""A call of a replica takes so much longer."""
BASE_ERRORS: Final = 0.01
"""The share of a healthy tool's calls that fail."""
_HICCUP: Final = Hit(0.2, Failed(500, "internal server error"))


def replica_of(tool: str) -> str:
    """Return the name of the tool that can stand in for ``tool``. It belongs to another server."""
    start, _, name = tool.rpartition(":")
    return f"{start}{REPLICA}:{name}"


class SharedTools:
    """Makes calls, and counts them.

    Args:
        fault: What breaks; None for nothing.
        target: The tool that breaks.
        window: When it breaks and when it works again, in seconds from now.

    Attributes:
        broken_calls: Calls that the fault hit.
        calls: All others.
        refused: Calls that a breaker refused.
        refused_healthy: Those of them that would have been answered. A call that would have been answered with probability one half
            is half a call.
    """

    def __init__(self, fault: Fault | None, target: str, window: tuple[float, float] = (BEGINS_S, ENDS_S)) -> None:
        self.fault = fault
        self.target = target
        self.broken_calls = self.calls = self.refused = 0
        self.refused_healthy = 0.0
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._window = window

    async def call(self, tool: str, task: object, answer: Callable[[], T], wrong: T, rng: Random) -> T:
        """Make a call by ``tool``, and return its answer.

        Args:
            tool: The tool that was asked for, or its replica.
            task: For what the call is made.
            answer: Does what the tool does.
            wrong: The answer of a tool whose answers are wrong.
            rng: Of the task, so that every arm draws the same.

        Raises:
            Exception: The tool's error, as its client raises it.
        """
        seconds, chance = 0.2 + rng.expovariate(2.0), rng.random()
        hit = self._hit(tool, task, rng)
        if hit is None:
            self.calls += 1
            hit = _HICCUP if chance < BASE_ERRORS else Hit()
        else:
            self.broken_calls += 1
        if hit.seconds is not None:
            seconds = hit.seconds
        await asyncio.sleep(seconds * SLOWER if f"{REPLICA}:" in tool else seconds)
        if hit.error is not None:
            raise hit.error()
        return wrong if hit.wrong else answer()

    def note_refusal(self, tool: str) -> None:
        """Count a refused call."""
        self.refused += 1
        fault = self._fault_of(tool)
        self.refused_healthy += 1.0 if fault is None else fault.would_answer(self._now())

    def _hit(self, tool: str, task: object, rng: Random) -> Hit | None:
        fault = self._fault_of(tool)
        return None if fault is None else fault.of(self._now(), task, rng)

    def _fault_of(self, tool: str) -> Fault | None:
        begins, ends = self._window
        return self.fault if tool == self.target and begins <= self._now() < ends else None

    def _now(self) -> float:
        return self._loop.time() - self._began
