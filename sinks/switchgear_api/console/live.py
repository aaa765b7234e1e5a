"""The stream of changes (server-sent events). Every event is computed and encoded once for all consoles."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from switchgear.follower.view import CircuitView
from switchgear_api.console.board import REFRESH_S, Boards, Snapshot
from switchgear_api.console.figures import Figures, ToolFigures, utc_now
from switchgear_api.console.now import advised
from switchgear_api.console.problems import without_names
from switchgear_api.console.records import circuit_part, iso
from switchgear_http.event_stream import EventHub, EventLog, event_text
from switchgear_http.problem import encoded

log = structlog.get_logger()

HEARTBEAT_S: Final = 5.0
KEPT: Final = 5_000
"""Events that a console can catch up with after its connection broke."""
MOST_WAITING: Final = 2_000
"""Events that wait for one console. One that reads more slowly has to connect again."""
WINDOW_MINUTES: Final = 60
STATS_AT_ONCE: Final = 100
"""Tools in one event of numbers. Fifty consoles get each event, and a large one would hold up what comes after it."""
STATS_PAUSE_S: Final = 0.02
_RETRY: Final = b"retry: 1000\n\n"
"""After so many milliseconds a browser whose stream has ended connects again."""
_NUMBER: Final = re.compile("[0-9]{1,18}")

Visible = Callable[[str], bool]
"""Whether a console may see a tool or a family, by its name."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Args:
        event_id: Where it stands in the stream.
        kind: ``circuit``, ``stats``, ``heartbeat`` or ``reset``.
        content: The data.
        encoded: The data as JSON.
    """

    event_id: str
    kind: str
    content: Mapping[str, Any]
    encoded: bytes

    def text(self, visible: Visible | None) -> bytes:
        """Return it without what a console may not see. Empty if nothing is left."""
        data = self.encoded if visible is None else self._data(visible)
        return b"" if data is None else event_text(self.event_id, self.kind, data)

    def _data(self, visible: Visible) -> bytes | None:
        if self.kind == "circuit":
            return self.encoded if visible(str(self.content["tool"])) else None
        if self.kind == "stats":
            tools = {name: each for name, each in self.content["tools"].items() if visible(name)}
            return encoded({"tools": tools}) if tools else None
        if self.kind == "heartbeat":
            return encoded({**self.content, "problems": without_names(self.content["problems"])})
        return self.encoded


class Live(EventHub):
    """Distributes what changes. Its tasks run while :meth:`run` does.

    Args:
        boards: The numbers.
        tenant: Only this tenant's calls, and no circuits. None means all.
    """

    def __init__(self, boards: Boards, tenant: str | None = None) -> None:
        super().__init__()
        self._boards = boards
        self._tenant = tenant
        self._epoch = secrets.token_hex(4)
        self._log = EventLog[Event](KEPT)
        self._before: Mapping[str, Any] = {}
        self._figures: Figures | None = None
        if tenant is None:
            boards.fleet.listen(self.changed)

    @property
    def last_id(self) -> str:
        """The id of the newest event."""
        return f"{self._epoch}-{self._log.end}"

    def changed(self, circuit: CircuitView) -> None:
        """Send a circuit that changed, a tool's with the advice for its new state. Those of users and sessions are left out."""
        if circuit.scope == "tool":
            counted = None if self._figures is None else self._figures.tools.get(circuit.tool_name)
            self.send("circuit", advised(circuit_part(circuit), counted or ToolFigures()))
        elif circuit.scope == "family":
            self.send("circuit", circuit_part(circuit) | {"is_family": True})

    def send(self, kind: str, content: Mapping[str, Any]) -> None:
        """Send an event to every console."""
        self._log.add(Event(f"{self._epoch}-{self._log.end + 1}", kind, content, encoded(content)))
        self.wake()

    async def run(self) -> None:
        """Send the changed numbers and heartbeats until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._numbers())
            group.create_task(self._heartbeats())

    async def _numbers(self) -> None:
        window, circuits = (WINDOW_MINUTES, self._tenant), self._tenant is None
        while True:
            await asyncio.sleep(REFRESH_S)
            if not self.streams:
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
            if not self.streams:
                continue
            data = self._boards.data(self._figures, named=self._tenant is None)
            if loop.time() >= next_heartbeat or data["problems"] != known:
                next_heartbeat, known = loop.time() + HEARTBEAT_S - REFRESH_S / 4, data["problems"]
                self.send("heartbeat", {"now": iso(utc_now()), **data})

    def events(self, after: str | None, visible: Visible | None) -> Iterator[bytes | None]:
        """Yield what a console doesn't have yet, as text of a ``text/event-stream``, and None when it has all.

        Args:
            after: The id of the last event that the console has. After a gap that is too long, the first event is ``reset``.
            visible: What the console may see. None: everything.
        """
        begin, place = self._log.end, self._place_after(after)
        yield _RETRY if place is not None else _RETRY + event_text(self.last_id, "reset", b"{}")
        place = begin if place is None else place
        while self._log.end - max(begin, place) < MOST_WAITING:
            piece = self._log.piece_since(place, lambda event: event.text(visible))
            if piece is None:
                return
            yield piece.text if piece.end > place else None
            place = piece.end

    def _place_after(self, after: str | None) -> int | None:
        """Return the number of the first event after an id; None if not all events after it are known."""
        if not after:
            return self._log.end
        epoch, _, number = after.partition("-")
        known = epoch == self._epoch and _NUMBER.fullmatch(number) is not None
        return int(number) if known and self._log.start <= int(number) <= self._log.end else None

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
