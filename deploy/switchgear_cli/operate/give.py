"""Give: send a command to the partition of its tool's owner (a policy by glob to every partition), and see it applied."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from switchgear.policies.glob import is_glob
from switchgear_cli.operate.confirm import Confirmation
from switchgear_cli.operate.given import Given
from switchgear_schemas import BrokerUnavailableError, Command
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings

_CONNECT_S: Final = 15.0
_CLOSE_S: Final = 3.0


async def give(settings: Settings, command: Command, *, wait_s: float | None) -> Given:
    """Send it and wait at most ``wait_s`` seconds for the fleet to show it; None does not wait.

    Raises:
        BrokerUnavailableError: no broker took it; nothing was changed.
    """
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", enable_idempotence=True)
    confirmation = None if wait_s is None else Confirmation(settings, command)
    try:
        try:
            async with asyncio.timeout(_CONNECT_S):
                await producer.start()
                known = await producer.client.fetch_all_metadata()
                count = len(known.partitions_for_topic(settings.topics.commands) or ())
                if not count:
                    raise BrokerUnavailableError(
                        f"The topic {settings.topics.commands} does not exist.", hint="Run `switchgear topics ensure`."
                    )
                if confirmation is not None:
                    await confirmation.start(count)
                places = await _send(producer, settings, command, count)
        except (TimeoutError, KafkaError) as error:
            raise BrokerUnavailableError(
                f"No Kafka broker at {settings.kafka_bootstrap_servers} took the command ({type(error).__name__}).",
                hint="Start one with `switchgear up`, or give --bootstrap-servers.",
            ) from error
        if confirmation is None or wait_s is None:
            return Given(command, "sent")
        return await confirmation.wait(places, wait_s)
    finally:
        await _close(producer, confirmation)


async def _send(producer: AIOKafkaProducer, settings: Settings, command: Command, count: int) -> dict[int, int]:
    """Every copy acknowledged: partition to offset."""
    by_glob = command.verb == "set_policy" and is_glob(command.tool_name)
    partitions = range(count) if by_glob else [owner_partition(command.tool_name, count)]
    key, value = command.tool_name.encode(), command.to_bytes()
    sent = [
        await producer.send(settings.topics.commands, key=key, value=value, partition=partition)
        for partition in partitions
    ]
    return {answer.partition: answer.offset for answer in await asyncio.gather(*sent)}


async def _close(producer: AIOKafkaProducer, confirmation: Confirmation | None) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await producer.stop()
            if confirmation is not None:
                await confirmation.stop()
    except (TimeoutError, KafkaError):
        pass  # what had to be sent is acknowledged, and the process ends
