"""Send commands, each to the partition of its tool's owner, and wait until they are applied.

A policy by glob goes to every partition.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from switchgear.policies.glob import is_glob
from switchgear_api.operate.command_result import CommandResult, Confirmation, Sent
from switchgear_schemas import BrokerUnavailableError, Command
from switchgear_schemas.families import partition_key
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings

_CONNECT_S: Final = 15.0
_CLOSE_S: Final = 3.0


async def send_command(settings: Settings, commands: Sequence[Command], *, wait_s: float | None) -> list[CommandResult]:
    """Send the commands, and wait until the fleet shows them.

    Args:
        settings: The brokers and topics.
        commands: The commands to send.
        wait_s: Longest wait in seconds for all together. None doesn't wait.

    Returns:
        The results, in the order of ``commands``.

    Raises:
        BrokerUnavailableError: No broker accepted them. Some of several commands may be in the log; to send them again is harmless.
    """
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", enable_idempotence=True)
    confirmation = None if wait_s is None else Confirmation(settings, commands)
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
                sent = await _send(producer, settings, commands, count)
        except (TimeoutError, KafkaError) as error:
            what = "the command" if len(commands) == 1 else f"all {len(commands)} commands"
            raise BrokerUnavailableError(
                f"No Kafka broker at {settings.kafka_bootstrap_servers} took {what} ({type(error).__name__}).",
                hint="Start one with `switchgear up`, or give --bootstrap-servers.",
            ) from error
        if confirmation is None or wait_s is None:
            return [CommandResult(command, "sent") for command in commands]
        return await confirmation.wait(sent, wait_s)
    finally:
        await _close(producer, confirmation)


async def _send(producer: AIOKafkaProducer, settings: Settings, commands: Sequence[Command], count: int) -> list[Sent]:
    """Wait until every copy is acknowledged."""
    topic = settings.topics.commands
    waiting = []
    for command in commands:
        by_glob = command.verb == "set_policy" and is_glob(command.tool_name)
        key = partition_key(command.tool_name, settings.family_pattern)
        partitions = range(count) if by_glob else [owner_partition(key, count)]
        value = command.to_bytes()
        waiting.append(
            [await producer.send(topic, key=key.encode(), value=value, partition=number) for number in partitions]
        )
    return [
        Sent(command, {answer.partition: answer.offset for answer in await asyncio.gather(*copies)})
        for command, copies in zip(commands, waiting, strict=True)
    ]


async def _close(producer: AIOKafkaProducer, confirmation: Confirmation | None) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await producer.stop()
            if confirmation is not None:
                await confirmation.stop()
    except (TimeoutError, KafkaError):
        pass  # what had to be sent is acknowledged, and the process ends


def this_person() -> str:
    """Return ``user@host`` of this machine, or the host alone if the user has no name."""
    host = socket.gethostname()
    try:
        return f"{getpass.getuser()}@{host}"
    except (KeyError, OSError):
        return host
