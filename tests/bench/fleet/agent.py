"""One process of the fleet, as every contender and both modes run it: it calls one tool, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.bench.fleet.outages import Answer, Outage, Timing, ToolError

Guard = Callable[["Tool"], Any]
"""Calls the tool if the contender lets it. Otherwise it raises the contender's refusal."""


@dataclass(frozen=True)
class Call:
    """A call that a process asked for. Times are seconds since the start of the trial.

    Attributes:
        process: Its number.
        at: When it asked.
        ended: When it had its answer.
        reached: Whether the call reached the tool. Otherwise it was refused.
        good: Whether it had, or would have had, a result in time.
    """

    process: int
    at: float
    ended: float
    reached: bool
    good: bool


@dataclass(frozen=True)
class Clock:
    """How a process knows the time and waits: really, or in virtual time."""

    now: Callable[[], float]
    """Seconds since the start of the trial."""
    sleep: Callable[[float], None]


class UnexpectedError(Exception):
    """A contender failed where it should have called or refused."""


class Tool:
    """One call of the tool: the function that a guard gets.

    Attributes:
        token: What the process signs in with. It has a new one as soon as the outage is over.
        reached: Whether the tool was called.
        answer: How the call ended, or would have.
    """

    def __init__(self, outage: Outage, timing: Timing, process: int, draw: float, clock: Clock) -> None:
        self.reached = False
        self._of = lambda: outage.answer(timing, process, clock.now(), draw)
        self._sleep = clock.sleep
        self.answer: Answer = self._of()
        self.token = "new" if clock.now() >= timing.recovers_s else "first"

    def __call__(self) -> None:
        self.reached = True
        self.answer = self._of()
        self._sleep(self.answer.seconds)
        if self.answer.error is not None:
            raise self.answer.error


def run_agent(
    process: int,
    guard: Guard,
    refusals: tuple[type[Exception], ...],
    outage: Outage,
    timing: Timing,
    rng: Random,
    clock: Clock,
) -> list[Call]:
    """Call the tool until the trial is over, and return every call.

    Raises:
        UnexpectedError: The contender raised something else than the tool's error or its refusal.
    """
    calls = []
    clock.sleep(rng.random() * timing.pause_s)
    while (at := clock.now()) < timing.length_s:
        tool = Tool(outage, timing, process, rng.random(), clock)
        try:
            guard(tool)
        except (ToolError, TimeoutError, *refusals) as error:
            if not tool.reached and not isinstance(error, refusals):
                raise UnexpectedError(f"refused with {error!r}") from error
        except Exception as error:
            raise UnexpectedError(repr(error)) from error
        else:
            if not tool.reached:
                raise UnexpectedError("the guard neither called nor refused")
        calls.append(Call(process, at, clock.now(), tool.reached, tool.answer.good(timing)))
        clock.sleep(timing.pause_s * rng.uniform(0.5, 1.5))
    return calls
