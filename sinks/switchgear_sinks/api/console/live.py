"""The stream of changes (server-sent events). Every event is computed and encoded once for all consoles."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from switchgear_http.problem import encoded
from switchgear_sinks.api.console.board import REFRESH_S, Boards, Snapshot
from switchgear_sinks.api.console.figures import Figures, ToolFigures, utc_now
from switchgear_sinks.api.console.now import advised
from switchgear_sinks.api.console.problems import without_names
from switchgear_sinks.api.console.records import RecordedCircuit, circuit_part, iso

log = structlog.get_logger()

HEARTBEAT_S: Final = 5.0
KEPT: Final = 5_000
"""Events that a console can catch up with after its connection broke."""
QUEUE: Final = 2_000
"""Events that wait for one console. One that reads more slowly loads the page again."""
WINDOW_MINUTES: Final = 60
STATS_AT_ONCE: Final = 100
"""Tools in one event of numbers. Fifty consoles get each event, and a large one would hold up what comes after it."""
STATS_PAUSE_S: Final = 0.02
_NUMBER: Final = re.compile("[0-9]{1,18}")

Visible = Callable[[str], bool]
"""Whether a console may see a tool or a family, by its name."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Args:
        number: Rises by one.
        kind: ``circuit``, ``stats``, ``heartbeat`` or ``reset``.
        content: The data.
        encoded: The data as JSON.
    """

    number: int
    kind: str
    content: Mapping[str, Any]
    encoded: bytes

    def visible(self, visible: Visible) -> bytes | None:
        """Return the data without what a console may not see; None if nothing is left."""
        if self.kind == "circuit":
            return self.encoded if visible(str(self.content["tool"])) else None
        if self.kind == "stats":
            tools = {name: each for name, each in self.content["tools"].items() if visible(name)}
            return encoded({"tools": tools}) if tools else None
        if self.kind == "heartbeat":
            return encoded({**self.content, "problems": without_names(self.content["problems"])})
        return self.encoded


class Live:
    """Distributes what changes. Its tasks run while :meth:`run` does.

    Args:
        boards: The numbers.
        tenant: Only this tenant's calls, and no circuits. None means all.
    """

    def __init__(self, boards: Boards, tenant: str | None = None) -> None:
        self._boards = boards
        self._tenant = tenant
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._queues: set[asyncio.Queue[Event | None]] = set()
        self._before: Mapping[str, Any] = {}
        self._figures: Figures | None = None
        self._closed = False
        if tenant is None:
            boards.fleet.listen(self.changed)

    @property
    def watchers(self) -> int:
        """Consoles that are connected."""
        return len(self._queues)

    @property
    def last_id(self) -> str:
        """The id of the newest event."""
        return f"{self._epoch}-{self._number}"

    def changed(self, circuit: RecordedCircuit) -> None:
        """Send a circuit that changed, a tool's with the advice for its new state. Those of users and sessions are left out."""
        if circuit.scope == "tool":
            counted = None if self._figures is None else self._figures.tools.get(circuit.tool_name)
            self.send("circuit", advised(circuit_part(circuit), counted or ToolFigures()))
        elif circuit.scope == "family":
            self.send("circuit", circuit_part(circuit) | {"is_family": True})

    def send(self, kind: str, content: Mapping[str, Any]) -> None:
        """Send an event to every console."""
        self._number += 1
        event = Event(self._number, kind, content, encoded(content))
        self._kept.append(event)
        for queue in list(self._queues):
            if queue.qsize() >= QUEUE - 1:
                self._queues.discard(queue)
                queue.put_nowait(None)  # it has one place left
            else:
                queue.put_nowait(event)

    async def run(self) -> None:
        """Send the changed numbers and heartbeats until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._numbers())
            group.create_task(self._heartbeats())

    async def _numbers(self) -> None:
        window, circuits = (WINDOW_MINUTES, self._tenant), self._tenant is None
        while True:
            await asyncio.sleep(REFRESH_S)
            if not self._queues:
                self._before = {}
                self._boards.renewed.discard((*window, circuits))
                continue
            self._boards.renewed.add((*window, circuits))
            try:
                snapshot = await self._boards.snapshot(*window, circuits=circuits, renew=True)
                self._figures = snapshot.figures
                await self._send_stats(snapshot)
            except Exception as error:  # noqa: BLE001 - ClickHouse may be away; the heartbeats go on and show the age
                log.warning("the console's numbers could not be read", error=str(error) or type(error).__name__)

    async def _heartbeats(self) -> None:
        """Send one every few seconds, also while ClickHouse lets the numbers wait, and one at once when something goes wrong or ends."""
        next_heartbeat, known = 0.0, None
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(REFRESH_S / 2)
            if not self._queues:
                continue
            data = self._boards.data(self._figures, named=self._tenant is None)
            if loop.time() >= next_heartbeat or data["problems"] != known:
                next_heartbeat, known = loop.time() + HEARTBEAT_S - REFRESH_S / 4, data["problems"]
                self.send("heartbeat", {"now": iso(utc_now()), **data})

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for queue in self._queues:
            if queue.qsize() < QUEUE:
                queue.put_nowait(None)
        self._queues.clear()

    async def stream(self, after: str | None, visible: Visible | None) -> AsyncGenerator[bytes]:
        """Yield events as text of a ``text/event-stream``.

        Args:
            after: The id of the last event that the console has. After a gap that is too long, the first event is ``reset``.
            visible: What the console may see. None: everything.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE)
        missed = self._missed(after)
        self._queues.add(queue)
        try:
            yield b"retry: 1000\n\n"
            if missed is None:
                yield f"id: {self.last_id}\nevent: reset\ndata: {{}}\n\n".encode()
            for event in missed or ():
                yield self._text(event, visible)
            while not self._closed:
                waiting = await queue.get()
                if waiting is None:
                    return
                yield self._text(waiting, visible)
        finally:
            self._queues.discard(queue)

    def _text(self, event: Event, visible: Visible | None) -> bytes:
        data = event.encoded if visible is None else event.visible(visible)
        if data is None:
            return b""
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._epoch.encode(), event.number, event.kind.encode(), data)

    def _missed(self, after: str | None) -> list[Event] | None:
        """Return the events after an id; None if they are not all known."""
        if not after:
            return []
        epoch, _, number = after.partition("-")
        if epoch != self._epoch or _NUMBER.fullmatch(number) is None or int(number) > self._number:
            return None
        oldest = self._kept[0].number if self._kept else self._number + 1
        if int(number) + 1 < oldest:
            return None
        return [event for event in self._kept if event.number > int(number)]

    async def _send_stats(self, snapshot: Snapshot) -> None:
        """Send the numbers that changed, in parts: a circuit that changes meanwhile is sent between two of them."""
        now = {
            row["tool"]: {
                "stats": row["stats"],
                "beat_now": {"calls": row["beat"]["calls"][-1], "errors": row["beat"]["errors"][-1]},
                "last_call_at": row["last_call_at"],
            }
            for row in snapshot.content["tools"]
        }
        changed = [name for name, each in now.items() if self._before.get(name) != each]
        first_time, self._before = not self._before, now
        for begin in range(0, max(len(changed), int(first_time)), STATS_AT_ONCE):
            tools = {name: now[name] for name in changed[begin : begin + STATS_AT_ONCE]}
            self.send("stats", {"tools": tools} | ({} if begin else {"fleet": snapshot.content["fleet"]}))
            await asyncio.sleep(STATS_PAUSE_S)
