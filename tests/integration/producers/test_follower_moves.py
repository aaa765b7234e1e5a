"""A long fetch delays nothing when partitions move from one broker to another, or a broker dies."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from switchgear import CircuitFollower
from switchgear.follower.status import STALE_AFTER_S
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings, load_settings
from tests.chaos.cluster import Broker, Cluster
from tests.chaos.proxy import Network
from tests.integration.producers.circuits import circuit
from tests.support.limits import HAPPEN_S
from tests.support.waiting import auntil

LATE_S = 4.0
"""Much less than the wait of a fetch."""


def leader_of(producer: AIOKafkaProducer, settings: Settings, partition: int) -> int:
    """Return the number of the partition's leader, as the producer knows it."""
    [found] = [
        each.leader
        for each in producer.client.cluster._partitions[settings.topics.circuits].values()
        if each.partition == partition
    ]
    return int(found)


@pytest.mark.deep
@pytest.mark.timeout(400)
async def test_a_record_of_a_partition_that_moves_arrives_soon_and_the_state_stays_current(tmp_path: Path) -> None:
    async with Network() as network:
        cluster = Cluster(tmp_path, 3, network)
        await cluster.start()
        try:
            await follow_through_moves(cluster)
        finally:
            await cluster.close()


async def follow_through_moves(cluster: Cluster) -> None:
    settings = load_settings(
        kafka_bootstrap_servers=cluster.direct,
        topic_prefix="moves.",
        topic_partitions=3,
        topic_replication_factor=3,
    )
    await ensure_topics(settings)
    follower = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    arrived: dict[tuple[str, int], float] = {}
    follower.listeners.append(lambda view: arrived.setdefault((view.circuit_id, view.version), time.monotonic()))
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all")
    await producer.start()
    version = 0

    async def publish_to_all() -> float:
        """Write a record to each partition. Return the longest time from its acknowledgement to its arrival."""
        nonlocal version
        version += 1
        written: dict[tuple[str, int], float] = {}
        for partition in range(3):
            made = circuit(f"t{partition}", "open", version)
            value = made.to_bytes()
            await producer.send_and_wait(settings.topics.circuits, value, key=b"t", partition=partition)
            written[made.circuit_id, version] = time.monotonic()
        await auntil(lambda: written.keys() <= arrived.keys(), HAPPEN_S)
        return max(arrived[key] - at for key, at in written.items())

    async def stop_leader(*, kill: bool) -> Broker:
        [broker] = [each for each in cluster.brokers if each.number == leader_of(producer, settings, 0)]
        await cluster.stop(broker, kill=kill)
        return broker

    try:
        follower.start()
        await auntil(lambda: follower.loaded, HAPPEN_S)
        assert await publish_to_all() < LATE_S
        for kill in (False, True):
            await asyncio.sleep(1)  # fetches wait at all brokers
            broker = await stop_leader(kill=kill)
            for _ in range(6):
                assert await publish_to_all() < LATE_S
                assert (follower.age_s() or 0) < STALE_AFTER_S
                await asyncio.sleep(0.5)
            cluster.spawn(broker)
            await cluster.whole()
        began = time.monotonic()
        assert follower.close(10)
        assert time.monotonic() - began < 3, "no fetch is waited for"
    finally:
        follower.close(10)
        await producer.stop()
