"""Background load at a given rate: events encoded in advance, in batches as a fleet's emitters send them, at a low priority."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from typing import Final

from aiokafka import AIOKafkaProducer

from switchgear_schemas.partitioner import partition_of

TICK_S: Final = 0.025
"""Time between two batches of a partition. Many emitters with a linger of 5 ms send as often at these rates."""
TOOLS: Final = 200


def _messages(partitions: int) -> dict[int, list[tuple[bytes, bytes]]]:
    """Return successful calls of 200 tools, by owning partition."""
    found: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
    for number in range(TOOLS):
        tool = f"load-{number}"
        event = {
            "tool_name": tool,
            "status": "success",
            "execution_time_ms": 12.5,
            "emitter_id": f"planner@host-{number % 20}",
            "session_id": f"s{number}",
            "generation": 0,
        }
        found[partition_of(tool, partitions)].append((tool.encode(), json.dumps(event).encode()))
    return found


async def run(bootstrap: str, topic: str, partitions: int, rate: float) -> None:
    """Send until the process ends. Print once a second how many events per second were acknowledged."""
    messages = _messages(partitions)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, max_batch_size=900_000)
    await producer.start()
    began = printed_at = time.monotonic()
    sent = acknowledged = since = 0
    pending: set[asyncio.Task[int]] = set()
    while True:
        due = int((time.monotonic() - began) * rate) - sent
        if due > 0 and len(pending) < 20 * partitions:
            sent += due
            for partition, choice in messages.items():
                share = due * len(choice) // TOOLS + 1
                pending.add(asyncio.create_task(_send(producer, topic, partition, choice, share)))
        await asyncio.sleep(TICK_S)
        done = {task for task in pending if task.done()}
        pending -= done
        acknowledged += sum(task.result() for task in done)
        if time.monotonic() - printed_at >= 1:
            print(f"rate {(acknowledged - since) / (time.monotonic() - printed_at):.0f}", flush=True)
            printed_at, since = time.monotonic(), acknowledged


async def _send(
    producer: AIOKafkaProducer, topic: str, partition: int, choice: list[tuple[bytes, bytes]], count: int
) -> int:
    batch = producer.create_batch()
    for number in range(count):
        key, value = choice[number % len(choice)]
        batch.append(timestamp=None, key=key, value=value)
    await (await producer.send_batch(batch, topic, partition=partition))
    return count


def main() -> None:
    """``bootstrap topic partitions rate``, as another bench starts it."""
    os.nice(10)
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
