"""Workers place circuits in partitions by ``family_pattern`` and ``topic_partitions``. One that would place them otherwise refuses to work.

It would look for the rows of a tool in another partition, and not find them. So each partition of the changelog has a row that says how
its circuits were placed (:class:`~switchgear.fleet.rows.Placement`), and the protocol of the consumer group has the pattern in its name.
"""

from __future__ import annotations

import contextlib
from typing import Final
from zlib import crc32

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear.fleet.rows import Placement, RowError, is_placement
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.families import canonical_pattern
from switchgear_schemas.settings import Settings

log = structlog.get_logger()
_CHANGE_IT: Final = "docs/howto/recovery.md says how to change it."


def protocol_name(family_pattern: str) -> str:
    """Return the name of the group's protocol. Kafka keeps a worker with another one out of the group."""
    return f"switchgear-families-{crc32(canonical_pattern(family_pattern).encode()):08x}"


async def check_group(settings: Settings) -> None:
    """Check that no worker with another ``family_pattern`` is in the group. If the group is unknown, Kafka itself refuses the worker.

    Raises:
        SettingsError: There is one.
    """
    group = settings.topics.worker_group
    admin = AIOKafkaAdminClient(**settings.kafka.options(), request_timeout_ms=10_000)
    try:
        await admin.start()
        (response,) = await admin.describe_consumer_groups([group])
    except KafkaError as error:  # a new broker has no coordinator yet
        log.info("group_unknown", error=repr(error))
        return
    finally:
        await admin.close()
    code, _, _, _, protocol, members = response.groups[0][:6]
    if not code and members and protocol not in ("", protocol_name(settings.family_pattern)):
        raise SettingsError(
            f"Workers with another family_pattern than {settings.family_pattern!r} run in the group {group}.",
            hint=f"Give this worker the same SWITCHGEAR_FAMILY_PATTERN, or stop all workers first: {_CHANGE_IT}",
        )


def check_placed(key: bytes, value: bytes | None, settings: Settings) -> bool:
    """Check a row of the changelog, and return whether it says how circuits are placed.

    Raises:
        SettingsError: They are placed by another ``family_pattern``, or in another number of partitions.
    """
    if not value or not is_placement(key):
        return False
    with contextlib.suppress(RowError):  # who restores the row reports it
        placed, changelog = Placement.decode(value), settings.topics.changelog
        if placed.partitions != settings.topic_partitions:
            raise SettingsError(
                f"The circuits of {changelog} are kept in {placed.partitions} partitions, "
                f"and topic_partitions is {settings.topic_partitions}.",
                hint=f"Set SWITCHGEAR_TOPIC_PARTITIONS={placed.partitions}. docs/howto/recovery.md says how to get more.",
            )
        if placed.pattern != canonical_pattern(settings.family_pattern):
            raise SettingsError(
                f"The circuits of {changelog} are placed by the family_pattern {placed.pattern!r}, "
                f"and this worker's is {settings.family_pattern!r}.",
                hint=f"Set SWITCHGEAR_FAMILY_PATTERN={placed.pattern!r}. {_CHANGE_IT}",
            )
        return True
    return False
