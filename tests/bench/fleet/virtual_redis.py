"""The commands of Redis that the contenders use, in virtual time: atomic, and with a latency in which other processes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.bench.fleet.world import World

LATENCY_S: Final = 0.0005
"""A command and its answer in a local network."""


class _Pipeline:
    """What a function of :meth:`VirtualRedis.transaction` gets: it reads at once and writes at the end, under one latency."""

    def __init__(self, data: dict[str, bytes]) -> None:
        self._data = data

    def get(self, key: str) -> bytes | None:
        return self._data.get(key)

    def set(self, key: str, value: Any) -> None:
        self._data[key] = _encoded(value)

    def multi(self) -> None:
        """Begin the writes."""


class VirtualRedis:
    """A client. All clients of a world see the same data, and each command waits for its latency first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._data: dict[str, bytes] = world.once("redis", dict)
        self._ends: dict[str, float] = world.once("redis expiry", dict)

    def _arrive(self, key: str) -> None:
        self._world.sleep(LATENCY_S)
        if self._ends.get(key, self._world.now() + 1) <= self._world.now():
            del self._ends[key], self._data[key]

    def get(self, key: str) -> bytes | None:
        self._arrive(key)
        return self._data.get(key)

    def set(self, key: str, value: Any, px: int | None = None) -> bool:
        self._arrive(key)
        self._data[key] = _encoded(value)
        self._ends.pop(key, None)
        if px is not None:
            self._ends[key] = self._world.now() + px / 1000
        return True

    def setnx(self, key: str, value: Any) -> bool:
        self._arrive(key)
        if key in self._data:
            return False
        self._data[key] = _encoded(value)
        return True

    def incr(self, key: str) -> int:
        self._arrive(key)
        value = int(self._data.get(key, b"0")) + 1
        self._data[key] = _encoded(value)
        return value

    def transaction(self, function: Callable[[Any], Any], *keys: str, value_from_callable: bool = False) -> Any:
        """Run a function on the data, without another process in between."""
        self._arrive(keys[0])
        found = function(_Pipeline(self._data))
        return found if value_from_callable else []


class AsyncVirtualRedis:
    """The same with coroutines, which never suspend: the process that runs them waits."""

    def __init__(self, world: World) -> None:
        self._plain = VirtualRedis(world)

    async def initialize(self) -> None:
        """Connect."""

    async def get(self, key: str) -> bytes | None:
        return self._plain.get(key)

    async def set(self, key: str, value: Any) -> bool:
        return self._plain.set(key, value)

    async def incr(self, key: str) -> int:
        return self._plain.incr(key)


def _encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
