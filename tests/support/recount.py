"""An independent recount with plain aiokafka and the standard library's json, without any of our code."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

COUNTED = {"transport", "timeout", "server", "rate_limited", "unknown"}


@dataclass
class Tally:
    """What the circuit of a tool must have counted, and what must be stored."""

    calls: int = 0
    failed: int = 0
    rejected: int = 0
    statuses: dict[str, int] = field(default_factory=lambda: defaultdict(int))


async def read_topic(bootstrap: str, topic: str) -> list[ConsumerRecord[Any, Any]]:
    """Return every record of the topic up to its present end."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    await consumer.start()
    try:
        await consumer._client.force_metadata_update()
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        found = []
        while any([await consumer.position(tp) < ends[tp] for tp in partitions]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found.extend(records)
        return found
    finally:
        await consumer.stop()


async def recount(bootstrap: str, topic: str) -> dict[str, Tally]:
    """Return the counts by tool from the executions topic. Every record there must be a valid execution."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for record in await read_topic(bootstrap, topic):
        event = json.loads(record.value)
        if event["status"] == "overdue":  # a report, and no call
            continue
        tally = tallies[event["tool_name"]]
        tally.statuses[event["status"]] += 1
        if event["status"] == "rejected":
            tally.rejected += 1
            continue
        tally.calls += 1
        default = event["status"] if event["status"] in {"timeout", "cancelled"} else "unknown"
        if event["status"] != "success" and (event.get("error_class") or default) in COUNTED:
            tally.failed += 1
    return dict(tallies)
