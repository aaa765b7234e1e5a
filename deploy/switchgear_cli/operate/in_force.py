"""The policy in force for a tool: the policy file's values, and what operators set over them, read from the worker's changelog."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear.fleet.overlay import laid_over
from switchgear.fleet.row import Row, applied
from switchgear.fleet.standing import Standing
from switchgear.policies import Explanation
from switchgear_schemas import BrokerUnavailableError
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from switchgear_stream.topic_reader import read_to_end

_CONNECT_S: Final = 15.0


async def in_force(settings: Settings, explained: Explanation) -> Explanation:
    """``explained`` with the operators' values over it; the source of each is ``policy set`` and the name or glob.

    Raises:
        BrokerUnavailableError: the broker didn't give the changelog in time.
        PolicyError: the file has changed since, and the values are impossible over it: the worker keeps to the file's.
    """
    layers = await _layers(settings, explained.tool_name)
    sources = dict(explained.sources)
    for name, layer in layers:
        for key, value in json.loads(layer).items():
            for field in (f"{key}.{part}" for part in value) if isinstance(value, dict) else (key,):
                sources[field] = f"policy set {name}"
    policy = laid_over(explained.policy, [layer for _, layer in layers])
    return explained.model_copy(update={"policy": policy, "sources": sources})


async def _layers(settings: Settings, tool_name: str) -> list[tuple[str, bytes]]:
    """Name or glob and its values, topmost last."""
    partition = owner_partition(tool_name, await _count(settings))
    wanted = {tool_name.encode(), Standing(partition=partition).key}
    newest: dict[bytes, bytes] = {}
    async for record in read_to_end(settings, settings.topics.changelog, [partition], timeout_s=20.0):
        _take(newest, wanted, record)
    found: list[tuple[str, bytes]] = []
    for key, value in newest.items():
        if key != tool_name.encode():
            standing = Standing.decode(value)
            found = [(glob, standing.tables[glob]) for glob in standing.covering(tool_name)]
    own = newest.get(tool_name.encode())
    values = None if own is None else Row.decode(own).policy
    return found if values is None else [*found, (tool_name, values)]


async def _count(settings: Settings) -> int:
    """Partitions of the changelog, as the broker has it.

    Raises:
        BrokerUnavailableError: no broker told, or the topic does not exist.
    """
    topic = settings.topics.changelog
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        async with asyncio.timeout(_CONNECT_S):
            await admin.start()
            (described,) = await admin.describe_topics([topic])
    except (TimeoutError, KafkaError) as error:
        raise BrokerUnavailableError(
            f"No Kafka broker at {settings.kafka_bootstrap_servers} answered ({type(error).__name__}).",
            hint="Start one with `switchgear up`, or give --bootstrap-servers.",
        ) from error
    finally:
        await admin.close()
    if not described["partitions"]:
        raise BrokerUnavailableError(f"The topic {topic} does not exist.", hint="Run `switchgear topics ensure`.")
    return len(described["partitions"])


def _take(newest: dict[bytes, bytes], wanted: set[bytes], record: Any) -> None:
    if record.key not in wanted:
        return
    if record.value is None:
        newest.pop(record.key, None)
    elif record.key not in newest or applied(record.value) >= applied(newest[record.key]):
        newest[record.key] = record.value
