"""The writer's limits and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from switchgear.telemetry.labels import BoundedLabels
from switchgear_schemas.settings import Settings

MOST_EMITTERS: Final = 50
"""Emitters whose wrong clocks are counted by name."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """Limits of the writer. Even a small insert has a fixed cost, so batches wait for their size or age."""

    batch_rows: int = 20_000
    batch_age_s: float = 0.5
    longest_age_s: float = 0.0
    """How long batches may wait if inserts take more of a core than :data:`~.pace.SHARE`. Less than ``batch_age_s`` is the same as that."""
    batch_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 96 * 1024 * 1024
    """Bytes of the messages of all partitions that wait or are being inserted."""
    retry_first_s: float = 0.2
    retry_longest_s: float = 10.0
    fence_s: float = 10.0
    """An older intent is committed again before the insert, so that a process that slept notices that it was replaced."""
    finish_s: float = 5.0
    """How long a batch may take to finish after its partition is revoked or the process is asked to stop."""

    @classmethod
    def of(cls, settings: Settings) -> WriterLimits:
        """Return the limits that the settings ask for."""
        longest_s = settings.sink_batch_max_age_s
        return cls(
            batch_rows=settings.sink_batch_max_rows,
            batch_age_s=min(cls().batch_age_s, longest_s),
            longest_age_s=longest_s,
        )

    @property
    def partition_rows(self) -> int:
        """Rows that one partition may hold before its fetching pauses."""
        return 2 * self.batch_rows

    @property
    def partition_bytes(self) -> int:
        """Bytes that one partition may hold before its fetching pauses, so that one that is stuck leaves room for the others."""
        return max(self.memory_bytes // 4, self.batch_bytes)


class WriterMetrics:
    """The metrics of one writer. A registry can have one set of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rows = Counter("switchgear_sink_rows", "Rows inserted.", ["table"], registry=registry)
        self.batches = Counter("switchgear_sink_batches", "Batches inserted.", ["table"], registry=registry)
        self.bytes = Counter("switchgear_sink_bytes", "Message bytes inserted.", ["table"], registry=registry)
        self.dead_letters = Counter(
            "switchgear_sink_dead_letters", "Messages sent to the dead letters.", ["topic"], registry=registry
        )
        self.lost_letters = Counter(
            "switchgear_sink_lost_dead_letters",
            "Dead letters that their topic refused for their size even without a value.",
            ["topic"],
            registry=registry,
        )
        self.skipped = Counter(
            "switchgear_sink_skipped", "Records that are not stored on purpose.", ["why"], registry=registry
        )
        self.wrong_clocks = Counter(
            "switchgear_sink_wrong_clocks",
            "Events that are dated more than a minute ahead of the broker's clock, or by a local time without a zone.",
            ["emitter", "clock"],
            registry=registry,
        )
        self._emitters = BoundedLabels(MOST_EMITTERS)
        self.missing = Counter(
            "switchgear_sink_missing_offsets",
            "Offsets that Kafka no longer had when the sink came to them.",
            ["topic"],
            registry=registry,
        )
        self.lacking = Gauge(
            "switchgear_sink_lacking_offsets",
            "Offsets that Kafka has, that sinks have read, and that this store lacks: it was lost, or it is another one.",
            ["topic"],
            registry=registry,
        )
        self.retries = Counter(
            "switchgear_sink_insert_retries", "Inserts tried again, by ClickHouse's code.", ["code"], registry=registry
        )
        self.replays = Counter(
            "switchgear_sink_replayed_batches", "Batches that an owner before had named.", registry=registry
        )
        self.failing = Gauge(
            "switchgear_sink_failing_partitions", "Partitions whose insert is being retried.", registry=registry
        )
        self.held = Gauge("switchgear_sink_held_bytes", "Message bytes in memory.", registry=registry)
        self.lag = Gauge(
            "switchgear_sink_lag", "Records not yet stored, by partition.", ["topic", "partition"], registry=registry
        )
        self.insert_seconds = Histogram(
            "switchgear_sink_insert_seconds",
            "Duration of a successful insert.",
            ["table"],
            registry=registry,
            buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
        )

    def count_wrong_clock(self, emitter: str, clock: str, events: int) -> None:
        """Count events of an emitter whose clock is wrong. ``clock`` is ``ahead`` or ``no_zone``."""
        self.wrong_clocks.labels(self._emitters.of(emitter), clock).inc(events)
