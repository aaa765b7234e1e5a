"""Run ``switchgear emit``: read, prepare, pace, send, count."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from switchgear_api.replay.history import HistoryLine, read_history
from switchgear_cli.emit.recording import Extent, Prepared, extent, prepare
from switchgear_cli.emit.sending import SHOWN, ChunkSender, Tally
from switchgear_schemas.errors import InvalidExecutionError


@dataclass(frozen=True, slots=True)
class EmitPlan:
    """What to do with a recording. ``speed`` 1 is real time; None sends as fast as Kafka accepts."""

    source: str
    restamp: bool = False
    speed: float | None = None
    service: str | None = None
    late_after_s: float = 300.0


def shift_of(found: Extent, speed: float | None, now: datetime) -> timedelta:
    """Return what to add to every clock so that the last call is recorded at the moment it is sent."""
    if found.last is None or found.first is None:
        return timedelta(0)
    span = found.last - found.first
    return now + (span / speed if speed else timedelta(0)) - found.last


def emit_lines(
    plan: EmitPlan,
    tally: Tally,
    sending: ChunkSender | None,
    *,
    complain: Callable[[str], None],
    advance: Callable[[int], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send every line of the plan's source. With ``sending`` None, only check the lines (a dry run).

    Args:
        plan: What to do.
        tally: Counts. They are right after an interruption too.
        sending: Where the records go.
        complain: Called with a sentence for each of the first refused lines.
        advance: Called with the number of lines that were done since the last call.
        sleep: Waits between paced lines, in seconds.

    Raises:
        HistoryError: The file can't be read to its end. The lines before were sent.
        BrokerUnavailableError: Kafka stopped answering.
    """
    now = datetime.now(UTC)
    shift = shift_of(extent(plan.source), plan.speed, now) if plan.restamp else None
    late = timedelta(seconds=plan.late_after_s)
    pace = Pace(plan.speed)
    done = 0
    try:
        for line in read_history(plan.source):
            tally.lines += 1
            done += 1
            if done >= 1000 or plan.speed:
                advance(done)
                done = 0
            now = datetime.now(UTC)
            try:
                prepared = prepare(line, shift=shift, now=now, service=plan.service)
            except InvalidExecutionError as error:
                _refused(line, error, tally, complain)
                continue
            _note(line, prepared, now - late, tally)
            if sending is not None:
                wait = pace.wait(prepared.recorded_at, time.monotonic())
                if wait > 0:
                    sending.push()
                    sleep(wait)
                sending.add(prepared.tool, prepared.value)
    finally:
        advance(done)
        if sending is not None:
            sending.finish()


class Pace:
    """Decides when to send a line.

    By the recorded clock divided by ``speed``. The first line and late lines go at once.
    """

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._origin: tuple[datetime, float] | None = None

    def wait(self, recorded: datetime | None, now: float) -> float:
        """Return the seconds to wait before the line may go. ``now`` is in seconds of a monotonic clock."""
        if self._speed is None or recorded is None:
            return 0.0
        if self._origin is None:
            self._origin = (recorded, now)
        first, began = self._origin
        return max(0.0, began + (recorded - first).total_seconds() / self._speed - now)


def _note(line: HistoryLine, prepared: Prepared, late_before: datetime, tally: Tally) -> None:
    assert line.event is not None
    if line.event.metric_id is None:
        tally.without_id += 1
    else:
        tally.note_id(line.event.metric_id.int)
    if prepared.recorded_at is None:
        tally.without_clock += 1
    elif prepared.recorded_at < late_before:
        tally.late += 1


def _refused(line: HistoryLine, error: InvalidExecutionError, tally: Tally, complain: Callable[[str], None]) -> None:
    tally.refused += 1
    if tally.refused <= SHOWN:
        complain(f"line {line.number} is not an execution: {error}")
