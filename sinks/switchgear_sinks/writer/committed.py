"""Reading back the intents that are in the group's offset commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_sinks.writer.intent import Intent

log = structlog.get_logger()

_ATTEMPTS: Final = 20
_WAIT_S: Final = 0.5


class CommittedIntents:
    """An admin client: the consumer itself gives offsets without their metadata."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._admin: Any = None

    async def start(self) -> None:
        """Connect.

        Raises:
            aiokafka.errors.KafkaConnectionError: no broker answered.
        """
        admin = AIOKafkaAdminClient(**self._connection.options())
        try:
            await admin.start()
        except BaseException:
            await admin.close()
            raise
        self._admin = admin

    async def stop(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            await self._admin.close()
            self._admin = None

    async def missing_topics(self, wanted: Iterable[str]) -> list[str]:
        """Which of ``wanted`` the brokers do not have."""
        known = set(await self._admin.list_topics())
        return [topic for topic in wanted if topic not in known]

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Intent]:
        """The unfinished batches of ``partitions``.

        Raises:
            BrokerUnavailableError: the group's coordinator gave no answer in ten seconds.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        for _ in range(_ATTEMPTS):
            try:
                found = await self._admin.list_consumer_group_offsets(self._group, partitions=wanted)
            except (KafkaError, OSError) as error:
                log.warning("the group's offsets cannot be read yet", reason=str(error) or type(error).__name__)
                await asyncio.sleep(_WAIT_S)
                continue
            intents = {partition: Intent.parse(at.metadata) for partition, at in found.items() if at.offset >= 0}
            return {partition: intent for partition, intent in intents.items() if intent is not None}
        raise BrokerUnavailableError(
            f"The coordinator of the group {self._group} does not answer.",
            hint="Nothing is lost: the sink goes on where it stopped once the brokers are healthy.",
        )
