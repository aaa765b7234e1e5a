"""Which partition owns a tool. It is Kafka's default partitioner, so a keyed producer of any client chooses the same one.

The hash is murmur2 as in the Java client (`org.apache.kafka.common.utils.Utils.murmur2`), taken from aiokafka.
"""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


@lru_cache(maxsize=65_536)
def owner_partition(tool_name: str, partitions: int) -> int:
    """Return the partition (``0 … partitions - 1``) whose worker owns the circuit of ``tool_name``."""
    return (int(murmur2(tool_name.encode())) & 0x7FFFFFFF) % partitions
