"""One computation of the page ``now`` for all consoles that show the same window and tenant."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_api.console.components import Components
from switchgear_api.console.figures import Figures, read_figures, read_openings, utc_now
from switchgear_api.console.fleet import ConsoleCircuits
from switchgear_api.console.now import assemble, is_refusing, is_troubled, openings
from switchgear_api.console.records import iso
from switchgear_api.console.shapes import Freshness, NowAnswer
from switchgear_http.problem import encoded
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Database, Store

REFRESH_S: Final = 2.0
"""Age from which the numbers are read again."""
MOST_COST: Final = 4
"""The numbers are read again after at least so many times as long as reading them took, so that consoles take a fifth of the time."""
MOST_AGE_S: Final = 10.0
"""While a stream reads the numbers again, the ones before are answered up to this age. The stream brings what has changed since."""
_MOST_WINDOWS: Final = 32
_GZIP_LEVEL: Final = 1


@dataclass(frozen=True)
class Snapshot:
    """The answer at one time."""

    content: NowAnswer
    figures: Figures
    took_s: float
    at: float

    @cached_property
    def body(self) -> bytes:
        """The answer as JSON, with invisible characters escaped."""
        return encoded(self.content)

    @cached_property
    def packed(self) -> bytes:
        """The same, compressed: 2,000 tools are several megabytes."""
        return gzip.compress(self.body, _GZIP_LEVEL)

    @property
    def stale(self) -> bool:
        """Whether it is time to read the numbers again."""
        return self.age_s >= max(REFRESH_S, MOST_COST * self.took_s)

    @property
    def age_s(self) -> float:
        """Seconds since the numbers were read."""
        return time.monotonic() - self.at

    @cached_property
    def troubled(self) -> bytes:
        """The answer as JSON with only the tools that are not closed, or that something is advised for."""
        tools = [row for row in self.content["tools"] if is_troubled(row)]
        return encoded({**self.content, "tools": tools})


class Boards:
    """The latest answers, by window and tenant.

    Args:
        store: The calls.
        fleet: The circuits.
        components: What is wrong with the system.
        settings: ``family_pattern`` is used.
    """

    def __init__(self, store: Store, fleet: ConsoleCircuits, components: Components, settings: Settings) -> None:
        self.db = Database(store)
        # These queries run all the time. With one thread each, the embedded engine leaves a processor to the streams of changes.
        self._figures = Database(store.client_pool("board", 1, {"max_threads": 1})) if store.embedded else self.db
        self.fleet = fleet
        self._components = components
        self.position: Callable[[], str] | None = None
        """Returns the id of the newest live event. A console that has loaded the page goes on from there."""
        self.renewed: set[tuple[int, str | None, bool]] = set()
        """Window, tenant and circuits of the answers that a stream renews all the time."""
        self._pattern = settings.family_pattern
        self._snapshots = BoundedDict[tuple[int, str | None, bool], Snapshot](_MOST_WINDOWS)
        self._turns: dict[tuple[int, str | None, bool], asyncio.Lock] = {}

    async def snapshot(
        self, minutes: int, tenant: str | None, *, circuits: bool = True, renew: bool = False
    ) -> Snapshot:
        """Return an answer that is at most a few seconds old.

        Args:
            minutes: Length of the window.
            tenant: Only this tenant's calls. None means all.
            circuits: Whether the reader may see the circuits.
            renew: Read the numbers again as soon as it is time, and wait for them.
        """
        key = (minutes, tenant, circuits)
        found = self._snapshots.get(key)
        turn = self._turns.setdefault(key, asyncio.Lock())
        others_renew = not renew and (turn.locked() or key in self.renewed)
        if found is not None and (not found.stale or (others_renew and found.age_s < MOST_AGE_S)):
            return found
        async with turn:
            found = self._snapshots.get(key)
            if found is None or found.stale:
                found = await self._compute(minutes, tenant, circuits=circuits)
                if (oldest := self._snapshots.put(key, found)) is not None:
                    self._turns.pop(oldest[0], None)
        return found

    def forget(self) -> None:
        """Compute the next answers again: an operator has just changed something."""
        self._snapshots.clear()

    async def _compute(self, minutes: int, tenant: str | None, *, circuits: bool) -> Snapshot:
        started, now = time.monotonic(), utc_now()
        live_id = self.position() if self.position is not None and circuits else None
        known = await self.fleet.all() if circuits else None
        refusing = [each for each in (known or {}).values() if each.scope == "tool" and is_refusing(each)]
        stored = await read_openings(self._figures, [each.circuit_id for each in refusing])
        opened = openings(refusing, stored)
        figures = await read_figures(
            self._figures, now, minutes, tenant, {name: each.at for name, each in opened.items()}
        )
        content = await asyncio.to_thread(assemble, known, figures, opened, family_pattern=self._pattern)
        answer: NowAnswer = {
            "checked_at": iso(now),
            "minutes": minutes,
            "live_id": live_id,
            "data": self.data(figures, named=circuits),
            **content,
        }
        return Snapshot(answer, figures, time.monotonic() - started, started)

    def data(self, figures: Figures | None, *, named: bool) -> Freshness:
        """Return how old the data is, and what is wrong with the system.

        Args:
            figures: The numbers.
            named: Whether the reader may know the names and addresses of processes.
        """
        age_s = self.fleet.age_s
        return {
            "newest_event_at": None if figures is None else iso(figures.newest_event_at),
            "circuits_fresh": self.fleet.fresh,
            "circuits_age_s": None if age_s is None else round(age_s, 3),
            "problems": self._components.problems(named=named),
        }
