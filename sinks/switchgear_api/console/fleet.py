"""The circuits of the fleet for the console: in memory from Kafka, else as the sink has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import structlog

from switchgear.follower.follower import CircuitFollower
from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.view import CircuitView
from switchgear.runtime.background_thread import Background
from switchgear_api.console.figures import utc_now
from switchgear_api.console.records import stored_record
from switchgear_schemas.settings import Settings
from switchgear_sinks.repository import CircuitsRepository
from switchgear_sinks.store import Store

log = structlog.get_logger()

_CLOSE_LIMIT_S: Final = 3.0


class ConsoleCircuits:
    """Knows every circuit.

    Args:
        store: Where the sink has stored the circuits. They are read while Kafka does not answer.
        settings: The brokers and topics.
        follow: Follow the circuits topic. Without it, the circuits come from the store.
    """

    def __init__(self, store: Store, settings: Settings, *, follow: bool) -> None:
        self._repository = CircuitsRepository(store)
        self._follower: CircuitFollower | None = None
        self._listeners: list[Callable[[CircuitView], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        if follow:
            self._follower = CircuitFollower(
                settings.kafka, topic_prefix=settings.topic_prefix, background=Background("switchgear-console")
            )
            self._follower.listeners.append(self._changed)

    def start(self) -> None:
        """Follow the topic in the background."""
        self._loop = asyncio.get_running_loop()
        if self._follower is not None:
            self._follower.start()

    async def stop(self) -> None:
        """End the background thread."""
        if self._follower is not None and not await asyncio.to_thread(self._follower.close, _CLOSE_LIMIT_S):
            log.warning("the circuits' follower did not stop in time")

    def listen(self, listener: Callable[[CircuitView], None]) -> None:
        """Call ``listener`` in the event loop with every circuit that changes."""
        self._listeners.append(listener)

    @property
    def age_s(self) -> float | None:
        """Seconds since the brokers last answered; None before the first answer and without Kafka."""
        return None if self._follower is None else self._follower.age_s()

    @property
    def fresh(self) -> bool:
        """Whether the circuits are those that the fleet has now."""
        age_s = self.age_s
        return self._follower is not None and self._follower.loaded and age_s is not None and age_s < STALE_AFTER_S

    async def all(self) -> Mapping[str, CircuitView]:
        """Return the circuits by id. If Kafka doesn't answer, return those that are stored."""
        if self._follower is not None and self._follower.loaded:
            return self._follower.table.snapshot()
        rows = await self._repository.current(utc_now() - timedelta(hours=24))
        return {row["circuit_id"]: stored_record(row) for row in rows}

    def limited(self, tool: str | None = None) -> Mapping[str, CircuitView]:
        """Return the circuits with rate limits by id, of all tools or of one. None while Kafka doesn't answer."""
        if self._follower is None or not self.fresh:
            return {}
        views = self._follower.table.snapshot()
        return {name: view for name, view in views.items() if view.pace is not None and tool in {None, view.tool_name}}

    async def find(self, circuit_id: str) -> CircuitView | None:
        """Return one circuit; None if it has no record."""
        return (await self.all()).get(circuit_id)

    def _changed(self, view: CircuitView) -> None:
        """Pass a change on. This runs in the follower's thread."""
        if self._loop is None or self._follower is None or not self._follower.loaded:
            return  # the first reading of the topic is no change
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, view)

    def _tell(self, circuit: CircuitView) -> None:
        for listener in self._listeners:
            listener(circuit)
