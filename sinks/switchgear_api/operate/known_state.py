"""What the workers know: the circuits, and the values that operators have set."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear.fleet.rows import PolicyOverrides, Row, is_circuit, is_overrides
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings
from switchgear_stream.inspect import take_row
from switchgear_stream.topic_reader import read_bounds, read_to_end

READ_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class KnownState:
    """The newest rows of the changelog: ``circuits`` by circuit id, ``overrides`` by the number of its partition."""

    circuits: dict[str, Row]
    overrides: dict[int, PolicyOverrides]

    def tools(self) -> list[str]:
        """Return the names of the tools, sorted."""
        return sorted(row.tool_name for row in self.circuits.values() if row.scope == "tool")

    def families(self) -> list[str]:
        """Return the names of the families, sorted."""
        return sorted(row.tool_name for row in self.circuits.values() if row.scope == "family")

    def policies_set(self) -> list[str]:
        """Return the circuits and globs that ``policy set`` has values for, sorted."""
        names = {row.circuit_id for row in self.circuits.values() if row.policy is not None}
        return sorted(names.union(*(overrides.tables for overrides in self.overrides.values())))


async def read_known(
    settings: Settings,
    tools: Collection[str] | None = None,
    *,
    enough: Collection[str] | None = None,
    timeout_s: float = READ_S,
) -> KnownState:
    """Read the changelog to its end. Foreign rows are left out, as the workers do.

    Args:
        settings: The brokers and topics.
        tools: Read only the rows of these tools, from the partitions of their owners. None reads everything.
        enough: Circuit ids. Reading stops when a row of each was read.
        timeout_s: Limit of the whole reading, in seconds.

    Raises:
        BrokerUnavailableError: The broker didn't deliver the changelog in time.
    """
    newest: dict[bytes, bytes] = {}
    sought = None if enough is None else {circuit_id.encode() for circuit_id in enough}
    try:
        async with asyncio.timeout(timeout_s):
            count = await _partitions(settings)
            pattern = settings.family_pattern
            numbers = range(count) if tools is None else sorted({partition_of(name, count, pattern) for name in tools})
            records = read_to_end(settings, settings.topics.changelog, numbers, timeout_s=None)
            async with aclosing(records):
                async for record in records:
                    if record.key is not None and (tools is None or _concerns(record.key, tools)):
                        take_row(newest, record, count, pattern)
                    if sought is not None and sought <= newest.keys():
                        break
    except TimeoutError as error:
        raise BrokerUnavailableError(
            f"The topic {settings.topics.changelog} could not be read from {settings.kafka_bootstrap_servers} "
            f"within {timeout_s:g} s.",
            hint="Check that its broker is up, or give --bootstrap-servers.",
        ) from error
    rows = [Row.decode(value) for key, value in newest.items() if is_circuit(key)]
    overrides = [PolicyOverrides.decode(value) for key, value in newest.items() if is_overrides(key)]
    return KnownState({row.circuit_id: row for row in rows}, {found.partition: found for found in overrides})


async def commands_wait(settings: Settings) -> bool:
    """Return whether the commands topic has commands that no worker has committed yet.

    Raises:
        BrokerUnavailableError: the broker didn't answer in time.
    """
    topic = settings.topics.commands
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        async with asyncio.timeout(READ_S):
            await admin.start()
            (described,) = await admin.describe_topics([topic])
            places = [TopicPartition(topic, entry["partition"]) for entry in described["partitions"]]
            starts, ends = await read_bounds(settings, places, timeout_s=READ_S)
            read = await admin.list_consumer_group_offsets(settings.topics.worker_group)
            return any(ends[place] > max(starts[place], read[place].offset if place in read else 0) for place in places)
    except (TimeoutError, KafkaError) as error:
        raise BrokerUnavailableError(
            f"Kafka at {settings.kafka_bootstrap_servers} did not say what the workers have read ({type(error).__name__}).",
            hint="Check that its broker is up.",
        ) from error
    finally:
        await admin.close()


def _concerns(key: bytes, tools: Collection[str]) -> bool:
    if not is_circuit(key):
        return True
    return read_circuit_id(key.decode(errors="replace")).name in tools


async def _partitions(settings: Settings) -> int:
    """Return the partitions of the changelog.

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
