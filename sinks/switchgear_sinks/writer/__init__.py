"""From Kafka into ClickHouse: each event is stored once in effect, and each invalid one becomes a dead letter."""

from switchgear_sinks.writer.settings import WriterLimits, WriterMetrics
from switchgear_sinks.writer.writer import Writer

__all__ = ["Writer", "WriterLimits", "WriterMetrics"]
