"""The slow half of the fuzzer: a real broker, a real worker and a real sink, and hostile records in every topic.

In rounds: hostile records, good ones behind them in each partition, then the good ones must be counted and stored within seconds by the
same processes. After some rounds worker and sink are ended and started again, so that they read the state topics with all that is in
them. At the end each record of the executions topic was counted and stored, or is a dead letter, exactly one of both.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas import DeadLetter
from switchgear_schemas.headers import REKEYED
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from switchgear_stream.inspect import read_rows
from switchgear_stream.topic_reader import read_to_end
from tests.fuzz.messages import topics
from tests.support.fleet import event
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, all_ended, switchgear

ROUND: Final = 100
"""Hostile executions of a round. Each other topic gets a quarter as many."""
SOON_S: Final = HAPPEN_S
"""Time in which the good records of a round must be counted and stored, on a busy machine."""
RESTART_EVERY: Final = 4
"""Rounds between two restarts."""


@dataclass
class FuzzOutcome:
    """The number of attempts, and the findings."""

    seed: int
    rounds: int = 0
    written: Counter[str] = field(default_factory=Counter)
    dead: int = 0
    stored: int = 0
    slowest_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        written = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.written.items()))
        return (
            f"seed {self.seed}: {self.rounds} rounds against a running system ({written}); {self.stored:,} stored, "
            f"{self.dead:,} dead letters of executions, the good ones after {self.slowest_s:.1f} s at most, {len(self.findings)} findings"
        )


class System:
    """A worker and a sink on a broker."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.good: Counter[str] = Counter()
        names = [f"good-{number}" for number in range(200)]
        self.tools = {owner_partition(name, settings.topic_partitions): name for name in names}
        self.worker = self._start("worker")
        self.sink = self._start("sink")

    def _start(self, name: str) -> Child:
        return switchgear(name, log=self.folder / f"{name}.log", settings=self.settings)

    def restart(self) -> None:
        """End both, and start them again."""
        for child in (self.worker, self.sink):
            child.__exit__()
        self.worker, self.sink = self._start("worker"), self._start("sink")

    async def say_good(self, writer: topics.Writer) -> None:
        """Send a good record to each partition."""
        records = [topics.Hostile(event(tool), tool.encode(), number) for number, tool in self.tools.items()]
        await writer.write(self.settings.topics.executions, records)
        self.good.update(self.tools.values())

    async def counted(self) -> bool:
        """Return whether every good record is counted once."""
        rows = await read_rows(self.settings)
        return all(tool in rows and rows[tool].total_calls == calls for tool, calls in self.good.items())

    async def stored_good(self) -> bool:
        """Return whether every good record is stored once."""
        found = await self.ask(
            "SELECT tool_name, count() FROM tool_metrics WHERE startsWith(tool_name, 'good-') GROUP BY 1"
        )
        return dict(found) == dict(self.good)

    async def ask(self, sql: str) -> list[Any]:
        """Return the rows of a query; none if the sink does not answer yet."""
        async with httpx.AsyncClient(timeout=SOON_S) as client:
            try:
                answer = await client.post(f"http://{self.settings.api_http}/v1/sql", json={"query": sql})
            except httpx.HTTPError:
                return []
        return [tuple(row) for row in answer.json()["rows"]] if answer.is_success else []


async def fuzz(settings: Settings, seed: int, seconds: float, folder: Path) -> FuzzOutcome:
    """Fuzz the topics of ``settings`` for ``seconds``, or until a round fails."""
    rng, outcome = random.Random(seed), FuzzOutcome(seed)
    system = System(settings, folder)
    end = time.monotonic() + seconds
    async with topics.Writer(settings) as writer:
        try:
            while time.monotonic() < end and not outcome.findings:
                if outcome.rounds and outcome.rounds % RESTART_EVERY == 0:
                    system.restart()
                await _throw(writer, settings, rng, outcome)
                await system.say_good(writer)
                await _soon(system.counted, "counted", system, outcome)
                await _soon(system.stored_good, "stored", system, outcome)
                outcome.rounds += 1
            if not outcome.findings:
                await _reckon(system, outcome)
        finally:
            with all_ended(system.worker, system.sink):
                pass
    return outcome


async def _throw(writer: topics.Writer, settings: Settings, rng: random.Random, outcome: FuzzOutcome) -> None:
    names, partitions = settings.topics, settings.topic_partitions
    few = ROUND // 4
    for kind, topic, records in (
        ("executions", names.executions, topics.executions(rng, ROUND, partitions)),
        ("commands", names.commands, topics.commands(rng, few, partitions)),
        ("rows", names.changelog, topics.state(rng, few, partitions, "row")),
        ("circuits", names.circuits, topics.state(rng, few, partitions, "circuit")),
        ("letters", names.dead, topics.state(rng, few, partitions, "letter")),
    ):
        outcome.written[kind] += await writer.write(topic, records)
        if rng.random() < 0.5:
            outcome.written["batches"] += await writer.write_raw(topic, rng.randrange(partitions), topics.batches(rng))


async def _soon(look: Callable[[], Awaitable[bool]], what: str, system: System, outcome: FuzzOutcome) -> None:
    began = time.monotonic()
    while not await look():
        ended = [name for name, child in (("worker", system.worker), ("sink", system.sink)) if not child.alive]
        if ended or time.monotonic() - began > SOON_S:
            why = f"{' and '.join(ended)} ended" if ended else f"not within {SOON_S:g} s"
            logs = "\n".join(
                f"{child.log.name}: {_last_errors(child.output())}" for child in (system.worker, system.sink)
            )
            outcome.findings.append(
                f"round {outcome.rounds} of seed {outcome.seed}: the good records are not {what}: {why}\n{logs}"
            )
            return
        await asyncio.sleep(0.1)
    outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - began)


def _last_errors(output: str) -> str:
    """Return the last errors of a log, and its end. The errors may be before a long traceback."""
    errors = [line for line in output.splitlines() if "[error" in line or "[critical" in line][-20:]
    return "\n".join([*errors, output[-1500:]])


async def _reckon(system: System, outcome: FuzzOutcome) -> None:
    """Compare each record of the executions topic with the stored rows and the dead letters."""
    settings = system.settings
    names = settings.topics
    places: set[tuple[int, int]] = set()
    async for record in read_to_end(settings, names.executions):
        if all(name != REKEYED for name, _ in record.headers):
            places.add((record.partition, record.offset))
    await _soon(lambda: _settled(system, places), "either stored or dead, each of them", system, outcome)
    stored = await _stored(system)
    dead = await _dead(settings)
    outcome.stored, outcome.dead = len(stored), len(set().union(*dead.values()))
    if len(stored) != len(set(stored)):
        outcome.findings.append(f"{len(stored) - len(set(stored))} records are stored twice")
    for component, letters in dead.items():
        both = set(stored) & letters
        if both:
            outcome.findings.append(
                f"{len(both)} records are stored, and dead letters of the {component}: {sorted(both)[:5]}"
            )
    if dead["worker"] & places != dead["sink"] & places:
        outcome.findings.append(
            f"worker and sink refuse different records: {sorted((dead['worker'] ^ dead['sink']) & places)[:5]}"
        )


async def _settled(system: System, places: set[tuple[int, int]]) -> bool:
    dead = await _dead(system.settings)
    return places <= set(await _stored(system)) | dead["sink"] and dead["sink"] & places <= dead["worker"]


async def _stored(system: System) -> list[tuple[int, int]]:
    found = await system.ask(
        "SELECT kafka_partition, groupArray(kafka_offset) FROM tool_metrics GROUP BY kafka_partition"
    )
    return [(int(partition), int(offset)) for partition, offsets in found for offset in offsets]


async def _dead(settings: Settings) -> dict[str, set[tuple[int, int]]]:
    """Return the places of executions with a dead letter, by its component. Forged letters name other topics."""
    found: dict[str, set[tuple[int, int]]] = {"worker": set(), "sink": set()}
    async for record in read_to_end(settings, settings.topics.dead):
        try:
            letter = DeadLetter.from_record(record.value, record.headers)
        except (KeyError, ValueError):
            continue
        if letter.topic == settings.topics.executions and letter.component in found:
            found[letter.component].add((letter.partition, letter.offset))
    return found


def settings_for(make: Callable[..., Settings], folder: Path) -> Settings:
    """Start a system in ``folder``."""
    return make(
        data_dir=folder,
        clickhouse_url=f"chdb:{folder / 'clickhouse'}",
        worker_http=f"127.0.0.1:{any_free_port()}",
        worker_session_timeout_s=15,  # a test machine may stall for some seconds
    )
