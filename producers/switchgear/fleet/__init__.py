"""The fleet's circuits: fold the log of all processes into one row per circuit. No Kafka, no clock, no I/O."""

from switchgear.fleet.fold import FleetFold
from switchgear.fleet.log import Changes, LogRecord, Message, Published, Rekeyed
from switchgear.fleet.rows import Row
from switchgear.fleet.takeover import Known, PublishedCircuit, read_published

__all__ = [
    "Changes",
    "FleetFold",
    "Known",
    "LogRecord",
    "Message",
    "Published",
    "PublishedCircuit",
    "Rekeyed",
    "Row",
    "read_published",
]
