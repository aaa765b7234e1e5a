"""Faults of brokers: one, all, or the leader of a partition is killed or ended, and started again."""

from __future__ import annotations

import asyncio

from aiokafka.admin import AIOKafkaAdminClient

from tests.chaos.cluster import Broker
from tests.chaos.faults.kind import Act, Kind
from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import PARTITIONS, PREFIX, Stage

ASK_S = 10.0


async def leader_of(stage: Stage, topic: str, partition: int) -> Broker:
    """Return the broker that leads a partition now."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.cluster.direct)
    async with asyncio.timeout(ASK_S):
        await admin.start()
        try:
            (found,) = await admin.describe_topics([topic])
        finally:
            await admin.close()
    number = next(each["leader"] for each in found["partitions"] if each["partition"] == partition)
    return next(broker for broker in stage.cluster.brokers if broker.number == number)


async def _bounce(stage: Stage, brokers: list[Broker], planned: Planned, *, kill: bool) -> str:
    cluster = stage.cluster
    await asyncio.gather(*[cluster.stop(broker, kill=kill, limit_s=15) for broker in brokers])
    await asyncio.sleep(planned.seconds)
    for broker in brokers:
        cluster.spawn(broker)
    began = asyncio.get_running_loop().time()
    await cluster.whole()
    names = ", ".join(str(broker.number) for broker in brokers)
    return (
        f"broker {names} {'killed' if kill else 'ended'}, back after {asyncio.get_running_loop().time() - began:.1f} s"
    )


def _one(*, kill: bool) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        brokers = stage.cluster.brokers
        return await _bounce(stage, [brokers[planned.choice % len(brokers)]], planned, kill=kill)

    return act


def _all(*, kill: bool) -> Act:
    async def act(stage: Stage, planned: Planned) -> str:
        return await _bounce(stage, stage.cluster.brokers, planned, kill=kill)

    return act


async def _leader(stage: Stage, planned: Planned) -> str:
    partition = planned.choice % PARTITIONS
    topic = f"{PREFIX}{'executions' if planned.choice // PARTITIONS % 2 else 'circuits'}"
    broker = await leader_of(stage, topic, partition)
    said = await _bounce(stage, [broker], planned, kill=True)
    return f"{topic}-{partition} was led by: {said}"


def kinds() -> dict[str, Kind]:
    """Return ``broker-kill``, ``broker-end``, ``brokers-kill``, ``brokers-end`` and ``leader-kill``."""
    return {
        "broker-kill": Kind(Span("brokers", 2, 6), _one(kill=True)),
        "broker-end": Kind(Span("brokers", 2, 6), _one(kill=False)),
        "leader-kill": Kind(Span("brokers", 2, 8), _leader),
        "brokers-kill": Kind(Span("brokers", 1, 4), _all(kill=True)),
        "brokers-end": Kind(Span("brokers", 1, 4), _all(kill=False)),
    }
