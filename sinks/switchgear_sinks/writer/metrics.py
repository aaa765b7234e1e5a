"""What the writer counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class WriterMetrics:
    """One set a registry."""

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
        self.missing = Counter(
            "switchgear_sink_missing_offsets",
            "Offsets that Kafka no longer had when the sink came to them.",
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
