"""Whether the topics are still as the worker needs them. Anyone with the rights can delete a topic or add partitions to it meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from aiokafka.errors import KafkaError

from switchgear_schemas.settings import Settings
from switchgear_stream.owner import Owner
from switchgear_stream.publisher import Publisher

log = structlog.get_logger()
EVERY_S: Final = 2.0
"""A look takes about 4 ms of processor time. Once a second, it was a quarter of what a worker takes at rest."""
ANSWER_S: Final = 5.0
GONE_S: Final = 3.0
"""How long a topic is missing before it is a problem. Someone may be creating it again."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong with the topics.

    Attributes:
        problem: What keeps the worker from its work, with what to do; None if there is nothing.
        notice: What the worker can live with; None if there is nothing.
    """

    problem: str | None = None
    notice: str | None = None


def judge(counts: Mapping[str, int], settings: Settings) -> Judgement:
    """Judge how many partitions the topics have. A topic that is not in ``counts`` doesn't exist.

    Args:
        counts: The partitions of each topic.
        settings: The names, and the number of partitions in which circuits are kept.
    """
    wanted, names = settings.topic_partitions, settings.topics
    topics = {topic.name: counts.get(topic.name, 0) for topic in settings.topic_definitions()}
    missing = [name for name, count in topics.items() if not count]
    if missing:
        return Judgement(f"Kafka has no topic {', '.join(missing)}. Create it with `switchgear topics ensure`.")
    del topics[names.dead]  # any number will do
    fewer = {name: count for name, count in topics.items() if count < wanted}
    more = {name: count for name, count in topics.items() if count > wanted}
    if fewer:
        return Judgement(
            f"{_listed(fewer)}, and circuits are kept in {wanted} (topic_partitions). "
            f"Add the missing ones: kafka-topics.sh --alter --topic {next(iter(fewer))} --partitions {wanted}."
        )
    if not more:
        return Judgement()
    return Judgement(
        notice=f"{_listed(more)}, and circuits are kept in {wanted} (topic_partitions). The events of the others take a detour. "
        "Leave topic_partitions as it is: docs/howto/recovery.md says how to get more."
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} has {count} partition{'' if count == 1 else 's'}" for name, count in counts.items())


class TopicWatch:
    """Looks at the topics every two seconds. If the circuits topic has lost records, it lets the owner publish them again.

    Args:
        settings: The names and the number of partitions.
        publisher: Asks the brokers.
        owner: Publishes again.
        clock: Monotonic seconds.
    """

    def __init__(
        self, settings: Settings, publisher: Publisher, owner: Owner, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._publisher = publisher
        self._owner = owner
        self._clock = clock
        self._judgement = Judgement()
        self._since = clock()
        self._suspected: set[int] = set()
        """Partitions of the circuits topic that ended too early at the last look. A new leader may report that for a moment."""
        self.counts: Mapping[str, int] = {}
        """How many partitions each topic has."""

    @property
    def problem(self) -> str | None:
        """What keeps the worker from its work; None if there is nothing."""
        return self._judgement.problem if self._clock() - self._since >= GONE_S else None

    @property
    def notice(self) -> str | None:
        """What the worker can live with; None if there is nothing."""
        return self._judgement.notice

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Look once. If Kafka does not answer, nothing changes: :mod:`.health_monitor` says that."""
        topic, known = self._settings.topics.circuits, dict(self._publisher.circuit_ends)
        try:
            async with asyncio.timeout(ANSWER_S):
                leaders = await self._publisher.leaders()
                ends = await self._publisher.ends(topic, leaders.get(topic, {}))
        except (KafkaError, OSError, TimeoutError) as error:
            log.debug("topics_unknown", error=repr(error))
            return
        self._judge({name: len(found) for name, found in leaders.items()})
        short = {partition for partition, end in ends.items() if end < known.get(partition, 0)}
        lost, self._suspected = short & self._suspected, short
        self._publisher.heard({partition: end for partition, end in ends.items() if partition not in short - lost})
        if self._publisher.take_set_back() or lost:
            log.warning("circuits_lost", topic=topic, partitions=sorted(lost))
            await self._owner.publish_again()

    def _judge(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        found = judge(counts, self._settings)
        if found != self._judgement:
            self._judgement, self._since = found, self._clock()
            reason = found.problem or found.notice
            if reason is not None:
                log.warning("topics_differ", reason=reason)
