"""After the faults: mend everything, end the load, and wait until there is no lag."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tests.chaos.stage import PARTITIONS, PREFIX, Stage
from tests.support.limits import ANSWER_S

LIMIT_S = 240.0
"""Longest wait for the lag to disappear."""
QUIET_LOOKS = 3
READS = {"worker": ("executions", "commands"), "sink": ("executions", "circuits")}


async def heal(stage: Stage) -> None:
    """Mend every link, and start every server that is down."""
    stage.network.mend()
    for broker in stage.cluster.brokers:
        if not broker.alive:
            stage.cluster.spawn(broker)
    await stage.cluster.whole()
    if stage.clickhouse.child is None or not stage.clickhouse.child.alive:
        stage.clickhouse.spawn()
    await stage.clickhouse.order("ok")


async def end_load(stage: Stage) -> None:
    """End the load. Each process waits for its open sends."""
    await asyncio.gather(*[stage.fleet.retire(member) for member in stage.fleet.of("emitter", "guard", "poster")])


async def no_lag(stage: Stage, limit_s: float = LIMIT_S) -> dict[str, int]:
    """Wait until workers and sinks have committed up to the ends. Return the remaining lag by group; empty if there is none."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    quiet, left = 0, {"": 1}
    while quiet < QUIET_LOOKS and loop.time() < deadline:
        try:
            async with asyncio.timeout(ANSWER_S):
                left = await _lag(stage)
        except (KafkaError, TimeoutError) as error:
            left = {f"unknown: {error!r}": 1}
        quiet = quiet + 1 if not left else 0
        await asyncio.sleep(0.5)
    return left


async def _lag(stage: Stage) -> dict[str, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=stage.cluster.direct)
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.cluster.direct)
    await consumer.start()
    await admin.start()
    try:
        found = {}
        for group, topics in READS.items():
            places = [TopicPartition(f"{PREFIX}{topic}", each) for topic in topics for each in range(PARTITIONS)]
            ends = await consumer.end_offsets(places)
            committed = await admin.list_consumer_group_offsets(f"{PREFIX}{group}")
            lag = 0
            for place, end in ends.items():
                at = committed.get(place)
                lag += end - (at.offset if at is not None and at.offset > 0 else 0)
                lag += group == "sink" and at is not None and bool(at.metadata)
            if lag:
                found[group] = lag
        return found
    finally:
        await admin.close()
        await consumer.stop()
