"""A breaker after the rules of AWS Powertools for Lambda (Python) 3.37.0, with its defaults. Its store is stood in for by a dict.

Failures in a row count in each process alone. The state is shared: a process reads it from the store, and keeps what it read for five
seconds. After 30 s one process takes the probe's lease, and three successes in a row of it close the circuit.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.benefit.arms.arm import Arm, Fleet, Make, RefusedError, ToolCaller

FAILURES: Final = 5
RECOVERY_S: Final = 30.0
SUCCESSES: Final = 3
CACHED_S: Final = 5.0
LEASE_S: Final = 30.0
"""A process that holds the probe may be replaced after this time."""
ROUND_TRIP_S: Final = 0.005
"""A read or a write of DynamoDB."""


@dataclass(frozen=True, slots=True)
class Record:
    """The shared state of a circuit."""

    state: str = "closed"
    opened_at: float = 0.0
    owner: int | None = None
    lease_until: float = 0.0


class EnvironmentBreaker(ToolCaller):
    """One execution environment."""

    def __init__(self, number: int, store: dict[str, Record]) -> None:
        self._number = number
        self._store = store
        self._read: dict[str, tuple[Record, float]] = {}
        self._failures: dict[str, int] = {}
        self._successes: dict[str, int] = {}
        self._seen: dict[str, str] = {}
        self._now = asyncio.get_running_loop().time

    async def call(self, tool: str, make: Make) -> Any:
        record = await self._state(tool)
        if record.state == "closed":
            if self._seen.get(tool, "closed") != "closed":
                self._failures[tool] = 0
            self._seen[tool] = "closed"
            return await self._closed(tool, make)
        self._seen[tool] = record.state
        now = self._now()
        mine = record.state == "half_open" and record.owner == self._number
        waited = record.state == "open" and now >= record.opened_at + RECOVERY_S
        expired = record.state == "half_open" and now >= record.lease_until
        if not mine and not ((waited or expired) and self._took_lease(tool, record)):
            raise RefusedError(f"Circuit '{tool}' is open.")
        return await self._probe(tool, make)

    async def _state(self, tool: str) -> Record:
        known = self._read.get(tool)
        if known is not None and self._now() - known[1] < CACHED_S:
            return known[0]
        await asyncio.sleep(ROUND_TRIP_S)
        record = self._store.get(tool, Record())
        self._read[tool] = record, self._now()
        return record

    def _took_lease(self, tool: str, known: Record) -> bool:
        """Take the probe if no other process has: the store's conditional write."""
        if self._store.get(tool, Record()) != known:
            return False
        self._write(tool, Record("half_open", known.opened_at, self._number, self._now() + LEASE_S))
        self._successes[tool] = 0
        return True

    async def _closed(self, tool: str, make: Make) -> Any:
        try:
            result = await make(tool)
        except Exception:
            self._failures[tool] = self._failures.get(tool, 0) + 1
            if self._failures[tool] >= FAILURES:
                self._failures[tool] = 0
                self._write(tool, Record("open", self._now()))
            raise
        self._failures[tool] = 0
        return result

    async def _probe(self, tool: str, make: Make) -> Any:
        try:
            result = await make(tool)
        except Exception:
            self._successes[tool] = 0
            self._write(tool, Record("open", self._now()))
            raise
        self._successes[tool] = self._successes.get(tool, 0) + 1
        if self._successes[tool] >= SUCCESSES:
            self._failures[tool] = self._successes[tool] = 0
            self._write(tool, Record())
        return result

    def _write(self, tool: str, record: Record) -> None:
        self._store[tool] = record
        self._read[tool] = record, self._now()


class EnvironmentFleet(Fleet):
    def __init__(self) -> None:
        self._store: dict[str, Record] = {}

    def process(self, number: int) -> ToolCaller:
        return EnvironmentBreaker(number, self._store)


ARM = Arm(
    "Powertools-like",
    "the rules of AWS Powertools 3.37.0 with its defaults: failures count in each process, the state is shared",
    4,
    EnvironmentFleet,
)
