"""Send records in chunks, a bounded number at a time, and count every answer. Each wait has a limit."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from switchgear.emitter.emitter import Emitter
from switchgear.emitter.status import Receipt
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError

CHUNK: Final = 500
UNDER_WAY: Final = 32
OLDEST_S: Final = 0.05
"""A paced line waits at most this long for its chunk."""


class ChunkSender:
    """Sends records that :meth:`add` takes one by one. :meth:`finish` waits for the last answers.

    Args:
        emitter: A connected emitter.
        tally: Where the answers are counted.
        stall_s: Longest wait without any answer, in seconds.

    Raises (both methods):
        BrokerUnavailableError: Kafka answered nothing for ``stall_s`` seconds.
    """

    def __init__(self, emitter: Emitter, tally: Tally, *, stall_s: float) -> None:
        self._emitter = emitter
        self._tally = tally
        self._stall_s = stall_s
        self._chunk: list[tuple[str, bytes]] = []
        self._begun = 0.0
        self._stalled = False
        self._under_way: deque[Future[Receipt]] = deque()
        self.reasons: list[str] = []
        """The broker's first few reasons for refusing a record."""

    def add(self, tool: str, value: bytes) -> None:
        """Take one record. Send the chunk if it is full or old."""
        if not self._chunk:
            self._begun = time.monotonic()
        self._chunk.append((tool, value))
        if len(self._chunk) >= CHUNK or time.monotonic() - self._begun >= OLDEST_S:
            self.push()

    def push(self) -> None:
        """Send the records taken so far."""
        if self._chunk:
            while len(self._under_way) >= UNDER_WAY:
                self._settle_oldest()
            self._under_way.append(self._emitter.submit(self._chunk))
            self._tally.sent += len(self._chunk)
            self._chunk = []
        while self._under_way and self._under_way[0].done():
            self._settle_oldest()

    def finish(self) -> None:
        """Send the rest and wait for every answer, unless Kafka stopped answering before."""
        if self._stalled:
            return
        self.push()
        while self._under_way:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        oldest = self._under_way[0]
        deadline = time.monotonic() + self._stall_s
        answered = self._emitter.status().acknowledged
        while True:
            try:
                receipt = oldest.result(timeout=0.5)
                break
            except concurrent.futures.TimeoutError:
                status = self._emitter.status()
                if status.acknowledged > answered:
                    answered, deadline = status.acknowledged, time.monotonic() + self._stall_s
                elif time.monotonic() >= deadline:
                    self._stalled = True
                    why = f" ({status.last_error})" if status.last_error else ""
                    raise BrokerUnavailableError(
                        f"Kafka has acknowledged nothing for {self._stall_s:g} s{why}.",
                        hint="What was not acknowledged may be sent again: its metric_id identifies it.",
                    ) from None
            except (SwitchgearError, concurrent.futures.CancelledError) as error:
                self._under_way.popleft()
                self._keep(str(error))
                return
        self._under_way.popleft()
        self._tally.acknowledged += receipt.acknowledged
        self._tally.rejected += len(receipt.refused)
        for _, reason in receipt.refused:
            self._keep(reason)

    def _keep(self, reason: str) -> None:
        if len(self.reasons) < 5:
            self.reasons.append(reason)


SHOWN: Final = 20
REMEMBERED: Final = 1_000_000


@dataclass(slots=True)
class Tally:
    """Counts of lines.

    Each line is refused here, refused by the broker, acknowledged, or not acknowledged. Blank lines don't count.
    """

    lines: int = 0
    refused: int = 0
    """Not an execution, so not sent."""
    sent: int = 0
    acknowledged: int = 0
    rejected: int = 0
    """Sent, and refused by the broker."""
    without_clock: int = 0
    without_id: int = 0
    late: int = 0
    repeated: int = 0
    _seen: set[int] = field(default_factory=set, repr=False)

    @property
    def unacknowledged(self) -> int:
        """Sent without an answer. These may be in the log or not."""
        return self.sent - self.acknowledged - self.rejected

    @property
    def complete(self) -> bool:
        """Every line is in the log."""
        return self.acknowledged == self.lines

    def note_id(self, metric_id: int) -> None:
        """Count a ``metric_id`` that an earlier line had. The first million are compared."""
        if metric_id in self._seen:
            self.repeated += 1
        elif len(self._seen) < REMEMBERED:
            self._seen.add(metric_id)

    def summary(self, seconds: float, *, dry_run: bool = False) -> str:
        """Return one line for the end."""
        if dry_run:
            return f"{self.lines - self.refused:,} lines would be sent, {self.refused:,} refused. Nothing was sent (--dry-run)."
        rate = self.acknowledged / seconds if seconds > 0 else 0.0
        words = f"{self.sent:,} sent, {self.acknowledged:,} acknowledged, {self.refused + self.rejected:,} refused"
        if self.unacknowledged:
            words += f", {self.unacknowledged:,} not acknowledged"
        return f"{words} in {seconds:.1f} s ({rate:,.0f} events/s)."

    def remarks(self, late_after_s: float, *, file: str, restamped_at_once: bool = False) -> list[str]:
        """Return what a person should know besides the summary, one remark each.

        Args:
            late_after_s: The setting: circuits don't count an event that is older.
            file: The file's name, for the command that replays it.
            restamped_at_once: ``--restamp`` was given without ``--speed``.
        """
        found = []
        if self.refused > SHOWN:
            found.append(f"{self.refused - SHOWN:,} more lines were refused; the first {SHOWN} are shown above.")
        if self.without_clock:
            found.append(f"{self.without_clock:,} lines had no recorded_at; stamped with the time of sending.")
        if self.without_id:
            found.append(f"{self.without_id:,} lines had no metric_id; each was given one.")
        if self.repeated:
            found.append(f"{self.repeated:,} lines repeat a metric_id of an earlier line; they were sent as they are.")
        if self.late:
            found.append(
                f"{self.late:,} lines were recorded more than {late_after_s:g} s (late_after_s) before they were sent. They are stored, "
                f"and no circuit counts them. To replay them through the breakers, run `switchgear replay {file}`."
                + (
                    " To send the recording at its own pace, so that each call counts, add `--speed 1`."
                    if restamped_at_once
                    else ""
                )
            )
        return found
