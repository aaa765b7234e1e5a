"""The writer: from Kafka into ClickHouse, each event exactly once in effect, each bad one among the dead letters."""

from switchgear_sinks.writer.settings import Limits, WriterMetrics
from switchgear_sinks.writer.writer import Writer

__all__ = ["Limits", "Writer", "WriterMetrics"]
