"""Where a contender runs: in one of the real processes, or in one of the simulated ones."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.outages import Timing

if TYPE_CHECKING:
    from tests.bench.fleet.world import World

FAILURES: Final = 5
"""Failures in a row that open a circuit, where that is a contender's rule. It is the default of all of them."""


@dataclass(frozen=True)
class Place:
    """One process.

    Attributes:
        process: Its number.
        timing: The timing of the trial.
        kafka: The address of the broker. Empty in virtual time.
        prefix: Of this trial's topics and keys.
        redis_url: Of the Redis server. Empty in virtual time.
        world: The virtual time. None in a real process.
    """

    process: int
    timing: Timing
    kafka: str = ""
    prefix: str = ""
    redis_url: str = ""
    world: World | None = None

    def redis(self) -> Any:
        """Return a client of Redis; in virtual time one with the same commands and a latency."""
        if self.world is not None:
            from tests.bench.fleet.virtual_redis import VirtualRedis  # noqa: PLC0415 - needs greenlet

            return VirtualRedis(self.world)
        import redis  # noqa: PLC0415 - not every contender needs it

        return redis.Redis.from_url(self.redis_url)


@dataclass(frozen=True)
class Contender:
    """A way to refuse calls. Its file is the only one that knows its library.

    Attributes:
        name: For tables.
        distribution: The package whose version is shown. None if it has none.
        shares: What its processes share.
        note: What one must know to judge its figures.
        refusals: The exceptions with which it refuses.
        guards: Called once in each process. Returns the function from a tool's name to its guard.
        needs: A server that it needs in a real process.
        virtual_time: Called once before a simulation with a function that returns the seconds since 1970 in virtual time. Makes the
            library use them. None if it takes its clock from :class:`Place`.
    """

    name: str
    distribution: str | None
    shares: str
    note: str
    refusals: tuple[type[Exception], ...]
    guards: Callable[[Place], Callable[[str], Guard]]
    needs: Literal["kafka", "redis"] | None = None
    virtual_time: Callable[[Callable[[], float]], None] | None = None

    @property
    def version(self) -> str:
        """The version of its package."""
        if self.distribution is None:
            return "this tree"
        return f"{self.distribution} {importlib.metadata.version(self.distribution)}"


NAMES: Final = (
    "switchgear",
    "pybreaker_memory",
    "purgatory_memory",
    "pybreaker_redis",
    "purgatory_redis",
    "interlock_redis",
    "powertools",
    "litellm_cooldown",
)
"""The files of ``tests/bench/fleet/contenders``. The first is the base of every ratio."""


def contender(name: str) -> Contender:
    """Return a contender by the name of its file.

    Raises:
        ImportError: Its library isn't installed.
    """
    found: Contender = importlib.import_module(f"tests.bench.fleet.contenders.{name}").CONTENDER
    return found
