"""Before Faust starts: the broker answers, and the topics are what the worker needs. Faust itself would wait for ever."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear_schemas import BrokerUnavailableError, SettingsError, SwitchgearError
from switchgear_schemas.settings import Settings

LIMIT_S: Final = 10.0
_RETRY_S: Final = 0.5


async def check_topics(settings: Settings, *, timeout_s: float = LIMIT_S) -> None:
    """See that every topic exists with the partitions that the settings say.

    Raises:
        BrokerUnavailableError: no broker answered within ``timeout_s``.
        SwitchgearError: a topic is missing.
        SettingsError: a topic has another number of partitions.
    """
    try:
        async with asyncio.timeout(timeout_s):
            found = await _partition_counts(settings)
    except (TimeoutError, KafkaError) as error:
        raise BrokerUnavailableError(
            f"No Kafka broker answered at {settings.kafka_bootstrap_servers} within {timeout_s:g} s.",
            hint="Start one (`switchgear up`), or set SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
        ) from error
    wanted = settings.topic_definitions()
    missing = [topic.name for topic in wanted if topic.name not in found]
    if missing:
        raise SwitchgearError(
            f"Kafka has no topic {', '.join(missing)}.", hint="Create what is missing with `switchgear topics ensure`."
        )
    for topic in wanted:
        if found[topic.name] != topic.partitions and topic.name != settings.topics.dead:
            raise SettingsError(
                f"The topic {topic.name} has {found[topic.name]} partitions, topic_partitions says {topic.partitions}.",
                hint="Set SWITCHGEAR_TOPIC_PARTITIONS to what the topics have.",
            )


async def _partition_counts(settings: Settings) -> dict[str, int]:
    while True:
        admin = AIOKafkaAdminClient(**settings.kafka.options(), request_timeout_ms=10_000)
        try:
            await admin.start()
            return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
        except KafkaError:
            await asyncio.sleep(_RETRY_S)
        finally:
            await admin.close()
