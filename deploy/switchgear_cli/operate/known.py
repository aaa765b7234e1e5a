"""What the workers know: the rows of circuits and the policies set by command, read from the changelog of their table."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear.fleet.policy_overrides import PolicyOverrides, is_circuit
from switchgear.fleet.rows import Row
from switchgear_schemas import BrokerUnavailableError
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from switchgear_stream.inspect import take_row
from switchgear_stream.topic_reader import read_to_end, start

READ_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Known:
    """The newest rows: ``circuits`` by circuit id, ``standing`` by the number of its partition."""

    circuits: dict[str, Row]
    standing: dict[int, PolicyOverrides]

    def tools(self) -> list[str]:
        """The names of the tools, sorted."""
        return sorted(row.circuit_id for row in self.circuits.values() if row.scope == "tool")

    def policies_set(self) -> list[str]:
        """The names and globs that `policy set` holds values of, sorted."""
        names = {row.circuit_id for row in self.circuits.values() if row.policy is not None}
        return sorted(names.union(*(standing.tables for standing in self.standing.values())))


async def read_known(
    settings: Settings,
    tools: Collection[str] | None = None,
    *,
    enough: Collection[str] | None = None,
    timeout_s: float = READ_S,
) -> Known:
    """Read the changelog up to its end. Rows that no worker can have written are left out, as the workers leave them out.

    Args:
        settings: the brokers.
        tools: only what concerns these tools, from the partitions of their owners; None for everything.
        enough: circuit ids; the reading ends as soon as a row of each is seen.
        timeout_s: limit of the whole reading, in seconds.

    Raises:
        BrokerUnavailableError: the broker didn't give the changelog in time.
    """
    newest: dict[bytes, bytes] = {}
    sought = None if enough is None else {circuit_id.encode() for circuit_id in enough}
    try:
        async with asyncio.timeout(timeout_s):
            count = await _partitions(settings)
            numbers = range(count) if tools is None else sorted({owner_partition(name, count) for name in tools})
            records = read_to_end(settings, settings.topics.changelog, numbers, timeout_s=None)
            async with aclosing(records):
                async for record in records:
                    if record.key is not None and (tools is None or _concerns(record.key, tools)):
                        take_row(newest, record, count)
                    if sought is not None and sought <= newest.keys():
                        break
    except TimeoutError as error:
        raise BrokerUnavailableError(
            f"The topic {settings.topics.changelog} could not be read from {settings.kafka_bootstrap_servers} "
            f"within {timeout_s:g} s.",
            hint="See whether its broker is up, or give --bootstrap-servers.",
        ) from error
    rows = [Row.decode(value) for key, value in newest.items() if is_circuit(key)]
    standing = [PolicyOverrides.decode(value) for key, value in newest.items() if not is_circuit(key)]
    return Known({row.circuit_id: row for row in rows}, {found.partition: found for found in standing})


async def commands_wait(settings: Settings) -> bool:
    """Whether the commands topic holds commands that the workers have not read yet, as far as they have committed.

    Raises:
        BrokerUnavailableError: the broker didn't answer in time.
    """
    topic = settings.topics.commands
    consumer = AIOKafkaConsumer(**settings.kafka.options(), group_id=None, enable_auto_commit=False)
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        async with asyncio.timeout(READ_S):
            await start(consumer)
            await admin.start()
            (described,) = await admin.describe_topics([topic])
            places = [TopicPartition(topic, entry["partition"]) for entry in described["partitions"]]
            ends, starts = await consumer.end_offsets(places), await consumer.beginning_offsets(places)
            read = await admin.list_consumer_group_offsets(settings.topics.worker_group)
            return any(ends[place] > max(starts[place], read[place].offset if place in read else 0) for place in places)
    except (TimeoutError, KafkaError) as error:
        raise BrokerUnavailableError(
            f"Kafka at {settings.kafka_bootstrap_servers} did not say what the workers have read ({type(error).__name__}).",
            hint="See whether its broker is up.",
        ) from error
    finally:
        await consumer.stop()
        await admin.close()


def _concerns(key: bytes, tools: Collection[str]) -> bool:
    if not is_circuit(key):
        return True
    circuit_id = key.decode(errors="replace")
    return any(circuit_id == name or circuit_id.startswith(f"{name}|") for name in tools)


async def _partitions(settings: Settings) -> int:
    """Partitions of the changelog, as the broker has it.

    Raises:
        BrokerUnavailableError: no broker answered, or the topic does not exist.
    """
    topic = settings.topics.changelog
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        await admin.start()
        (described,) = await admin.describe_topics([topic])
    except KafkaError as error:
        raise BrokerUnavailableError(
            f"No Kafka broker at {settings.kafka_bootstrap_servers} answered ({type(error).__name__}).",
            hint="Start one with `switchgear up`, or give --bootstrap-servers.",
        ) from error
    finally:
        await admin.close()
    if not described["partitions"]:
        raise BrokerUnavailableError(f"The topic {topic} does not exist.", hint="Run `switchgear topics ensure`.")
    return len(described["partitions"])
