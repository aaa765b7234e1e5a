"""Which partition owns a tool. A keyed producer of any client chooses the same one for the tool's key: it is Kafka's default partitioner.

The hash is murmur2 as in the Java client (`org.apache.kafka.common.utils.Utils.murmur2`), taken from aiokafka.
"""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2

from switchgear_schemas.families import DEFAULT_PATTERN, partition_key


@lru_cache(maxsize=65_536)
def owner_partition(key: str, partitions: int) -> int:
    """Return the partition (``0 … partitions - 1``) of a key. For a tool's name, call :func:`partition_of`."""
    return (int(murmur2(key.encode())) & 0x7FFFFFFF) % partitions


def partition_of(tool_name: str, partitions: int, family_pattern: str = DEFAULT_PATTERN) -> int:
    """Return the partition whose worker owns the circuits of a tool, or of a family. Everything that looks for an owner asks here."""
    return owner_partition(partition_key(tool_name, family_pattern), partitions)


def may_have_owned(partition: int, tool_name: str, partitions: int) -> bool:
    """Return whether ``partition`` may have owned the tool by another ``family_pattern``."""
    parts = tool_name.split(":")
    return any(owner_partition(":".join(parts[:end]), partitions) == partition for end in range(1, len(parts) + 1))
