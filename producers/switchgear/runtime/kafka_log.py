"""What aiokafka writes to the log, kept to a few lines a minute, and one sentence of ours for what they mean.

While its broker is away, aiokafka writes 70 lines a second. Only lines of our clients are limited: those of our background threads, or all
lines in a process of ours. Other clients in the program and its root logger stay as they are. :func:`unlimit` switches the limit off.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from switchgear.runtime.throttled_log import Throttle

log: Final = logging.getLogger("switchgear.kafka")

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.admin.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.consumer",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "aiokafka.consumer.subscription_state",
    "aiokafka.helpers",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
"""Those that write of connections. A filter of a logger doesn't see what its children write."""
EVERY_S: Final = 20.0
"""One line of each message template passes in this time."""
AWAY_AFTER_S: Final = 15.0
"""Failed connections for so long without an answer mean that Kafka is away. One broker of several that is down is not: the others answer."""
CALM_S: Final = 60.0
"""After so long without a failed connection Kafka is back, also for a consumer that has no partitions and so gets no answers."""
_FAILED: Final = ("Unable connect", "Unable to update metadata", "Unable to request metadata")
_MEANING: Final = "Calls go on: events wait in memory or in the spool, and the last known circuits hold."


class Ours(threading.local):
    """Whether this thread runs clients of Switchgear only."""

    thread = False


ours: Final = Ours()


class KafkaLogFilter(logging.Filter):
    """Lets few lines of each kind pass, and says when Kafka is away and when it is back.

    Args:
        clock: Returns monotonic seconds.
        wall: Returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock, self._wall = clock, wall
        self._throttle = Throttle(EVERY_S, clock=clock)
        self._failing_since: float | None = None
        self._failed_at = 0.0
        self._away = False
        self._stamps: dict[int, tuple[object, ...]] = {}
        self.address = ""
        self.meaning = _MEANING
        self.everywhere = False
        """All threads are ours."""
        self.off = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the line. If lines like it were left out, add their number."""
        if record.levelno < logging.WARNING or not (self.everywhere or ours.thread):
            return True
        template = str(record.msg)
        if template.startswith(_FAILED):
            self._note_failure()
        left_out = self._throttle.admit((record.name, template))
        if left_out is None:
            return False
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like it)", ()
        return True

    def answered(self) -> None:
        """Note that Kafka answered. It costs nothing while all is well."""
        since = self._failing_since
        if since is None:
            return
        self._failing_since = None
        self._stamps.clear()
        if self._away:
            self._away = False
            log.warning("Kafka%s answers again, after %.0f s.", self._at(), self._clock() - since)

    def look(self, consumer: Any) -> None:
        """Note whether the broker has answered a consumer. Call it often: while all is well it returns at once."""
        if self._failing_since is None:
            return
        stamps = tuple(consumer.last_poll_timestamp(each) for each in sorted(consumer.assignment()))
        before, self._stamps[id(consumer)] = self._stamps.get(id(consumer)), stamps
        changed = before is not None and len(before) == len(stamps) and before != stamps
        if changed or self._clock() - self._failed_at >= CALM_S:
            self.answered()

    def _note_failure(self) -> None:
        now = self._failed_at = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        if not self._away and now - self._failing_since >= AWAY_AFTER_S:
            self._away = True
            since = datetime.fromtimestamp(self._wall() - (now - self._failing_since), UTC)
            log.warning("Kafka%s has not answered since %s UTC. %s", self._at(), f"{since:%H:%M:%S}", self.meaning)

    def _at(self) -> str:
        return f" at {self.address}" if self.address else ""


_filter: Final = KafkaLogFilter()
answered: Final = _filter.answered
look: Final = _filter.look


def install(address: str, *, meaning: str | None = None, everywhere: bool = False) -> None:
    """Limit the lines of our clients from now on. Another call adds nothing.

    Args:
        address: The brokers, for the message that they are away.
        meaning: What it means for this process that they are, as a sentence.
        everywhere: All Kafka clients of the process are ours.
    """
    _filter.address = address
    _filter.meaning = meaning or _filter.meaning
    _filter.everywhere = _filter.everywhere or everywhere
    if not _filter.off:
        for name in LOGGERS:
            logging.getLogger(name).addFilter(_filter)


def unlimit() -> None:
    """Let aiokafka write all its lines again, and say nothing about Kafka in its place."""
    _filter.off = True
    for name in LOGGERS:
        logging.getLogger(name).removeFilter(_filter)
