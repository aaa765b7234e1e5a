"""Virtual time in which code that blocks runs unchanged: each process is a greenlet, and waiting switches to the next action."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulator.agenda import EPOCH, Agenda


class World:
    """One simulated trial.

    Args:
        seed: Seed of its random generator.

    Attributes:
        agenda: The virtual time.
        rng: The generator of everything that isn't a process's own.
        shared: What the processes share, such as the data of Redis, by name.
    """

    def __init__(self, seed: str) -> None:
        self.agenda = Agenda()
        self.rng = Random(seed)
        self.shared: dict[str, Any] = {}
        self._hub = getcurrent()

    def now(self) -> float:
        """Return the seconds since the start of the trial."""
        return self.agenda.now

    def wall(self) -> float:
        """Return the seconds since 1970."""
        return EPOCH + self.agenda.now

    def spawn(self, function: Callable[[], object]) -> None:
        """Run a function as a process, from now on. An exception that it raises ends the trial."""
        self.agenda.after(0.0, greenlet(function, parent=self._hub).switch)

    def sleep(self, seconds: float) -> None:
        """Let the current process wait."""
        self.agenda.after(seconds, getcurrent().switch)
        self._hub.switch()

    def wait(self, seconds: float, subscribe: Callable[[Callable[[], None]], object]) -> None:
        """Let the current process wait until it is woken, at most ``seconds``.

        Args:
            seconds: The limit.
            subscribe: Gets the function that wakes the process.
        """
        process, woken = getcurrent(), False

        def resume() -> None:
            nonlocal woken
            if not woken:
                woken = True
                process.switch()

        subscribe(lambda: self.agenda.after(0.0, resume))
        self.agenda.after(seconds, resume)
        self._hub.switch()

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what all processes share under a name. The first that asks makes it."""
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]
