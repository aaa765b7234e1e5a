"""An owner played by hand: it writes circuit records as the worker does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from switchgear_schemas.circuit import Circuit, Lease
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings


def circuit(tool: str, state: str, version: int, *, until: float | None = 60.0, **fields: Any) -> Circuit:
    """A record; ``until``: seconds from now."""
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "circuit_id": tool,
        "tool_name": tool,
        "state": state,
        "version": version,
        "generation": version,
        "changed_at": now,
        "open_until": None if until is None else now + timedelta(seconds=until),
    }
    return Circuit(**(given | fields))


def lease(emitter_id: str, name: str = "lease-1", seconds: float = 30.0) -> Lease:
    """A live lease for a process."""
    return Lease(lease_id=name, emitter_id=emitter_id, expires_at=datetime.now(UTC) + timedelta(seconds=seconds))


async def publish(settings: Settings, *records: Circuit | tuple[str, bytes | None]) -> None:
    """Write circuit records, or raw ``(key, value)`` pairs, to the partitions of their owners."""
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all")
    await producer.start()
    try:
        for record in records:
            key, value = (record.circuit_id, record.to_bytes()) if isinstance(record, Circuit) else record
            tool = record.tool_name if isinstance(record, Circuit) else key
            partition = partition_of(tool, settings.topic_partitions)
            await producer.send_and_wait(settings.topics.circuits, value, key=key.encode(), partition=partition)
    finally:
        await producer.stop()


async def executions(settings: Settings) -> AIOKafkaConsumer:
    """A started consumer of all executions from the beginning."""
    consumer = AIOKafkaConsumer(settings.topics.executions, **settings.kafka.options(), auto_offset_reset="earliest")
    await consumer.start()
    return consumer
