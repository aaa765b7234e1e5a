"""The fast half of the fuzzer: decoders and the fold on hostile messages, without Kafka, thousands per second."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

from switchgear.fleet import Changes, FleetFold, Known, Message, PublishedCircuit, read_published
from switchgear.fleet.rows import RowError, check_row
from switchgear.follower.view import UnreadableCircuitError, decode_view
from switchgear_schemas import DeadLetter
from switchgear_schemas.enums import MAX_LETTER_BYTES
from switchgear_schemas.headers import REKEYED
from switchgear_schemas.partitioner import owner_partition, partition_of
from switchgear_sinks.writer.rows import ExecutionRows
from switchgear_stream.folding import fold_all
from tests.fuzz.messages import hostile
from tests.support.fleet import COMMANDS, EXECUTIONS, START_MS, OnePolicy, event

PARTITIONS = 4
GOOD = [f"good-{number}" for number in range(8)]
BATCH = 50
RESTART_EVERY = 20
"""Batches of a round. After them a new owner takes over from the rows, the records and the garbage between them."""


@dataclass
class Result:
    """The number of attempts, and the findings."""

    seed: int
    records: int = 0
    dead: int = 0
    unforeseen: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.records:,} messages folded in the process, {self.dead:,} dead letters, "
            f"{self.unforeseen} unforeseen, {len(self.findings)} findings"
        )


class Owner:
    """A worker's fold, its table, and the state topics, in memory."""

    def __init__(self, rng: random.Random, result: Result) -> None:
        self.rng, self.result = rng, result
        self.offsets = [itertools.count() for _ in range(PARTITIONS)]
        self.command_offsets = [itertools.count() for _ in range(PARTITIONS)]
        self.rows: dict[bytes, bytes] = {}
        self.published: dict[str, PublishedCircuit] = {}
        self.counted = dict.fromkeys(GOOD, 0)
        self.policies = OnePolicy()
        self.now_ms = START_MS
        self.fold = FleetFold(self.rows, self.policies, partitions=PARTITIONS, late_after_s=300)

    def batch(self) -> None:
        """Fold hostile executions and commands with good ones between them, and check the result."""
        executions = [self._execution() for _ in range(BATCH)]
        commands = [self._command() for _ in range(BATCH // 5)]
        good = self.rng.choice(GOOD)
        executions.insert(
            self.rng.randrange(BATCH), self._record(EXECUTIONS, event(good), owner_partition(good, PARTITIONS))
        )
        self.counted[good] += 1
        changes, unforeseen = fold_all(
            self.fold, [(self.fold.executions, executions), (self.fold.commands, commands)], self._store
        )
        result = self.result
        result.records += len(executions) + len(commands)
        result.dead += len(changes.dead)
        result.unforeseen += unforeseen
        done = changes.folded + changes.commands + changes.duplicates + len(changes.dead) + len(changes.rekeyed)
        if done != len(executions) + len(commands):
            self._find(f"of {len(executions) + len(commands)} records {done} were accounted for")
        if unforeseen:
            self._find(
                next(
                    letter.reason + repr(letter.value)[:300]
                    for letter in changes.dead
                    if "could not fold" in letter.reason
                )
            )
        self._check_outputs(changes)
        self._check_sink(executions, changes)

    def take_over(self) -> None:
        """Take over as a new owner, with garbage in the topics, and check that no good record is lost."""
        for _ in range(BATCH):
            self._throw_row()
            self._throw_circuit()
        self.fold = FleetFold(self.rows, self.policies, partitions=PARTITIONS, late_after_s=300)
        self.fold.take_over(Known(self.published))
        self._store(self.fold.take())
        for partition in range(PARTITIONS):
            for key, value in list(self.rows.items()):
                if key.startswith(b"good-") and owner_partition(key.decode(), PARTITIONS) == partition:
                    check_row(key, value, partition, PARTITIONS)

    def _execution(self) -> Message:
        rng = self.rng
        tool = rng.choice((*GOOD, *hostile.NAMES, "t"))
        value = (
            hostile.blob(rng) if rng.random() < 0.1 else hostile.execution(rng, f"h-{tool}" if tool in GOOD else tool)
        )
        return self._record(EXECUTIONS, value, rng.randrange(PARTITIONS), hostile.headers(rng))

    def _command(self) -> Message:
        rng = self.rng
        value = hostile.blob(rng) if rng.random() < 0.1 else hostile.command(rng)
        return self._record(COMMANDS, value, rng.randrange(PARTITIONS), hostile.headers(rng))

    def _record(
        self, topic: str, value: bytes | None, partition: int, headers: list[tuple[str, bytes | None]] | None = None
    ) -> Message:
        offsets = self.offsets if topic == EXECUTIONS else self.command_offsets
        self.now_ms += self.rng.choice((0, 1, 50, 20_000))
        at = self.now_ms if headers is None or self.rng.random() > 0.02 else self.rng.choice((-1, 0, 2**62, -(2**63)))
        return Message(topic, partition, next(offsets[partition]), at, b"k", value, headers or [])  # type: ignore[arg-type]

    def _store(self, changes: Changes) -> None:
        for key, (tool, value) in changes.rows.items():
            if value is None:
                self.rows.pop(key, None)
                continue
            self.rows[key] = value
            try:
                check_row(key, value, partition_of(tool, PARTITIONS), PARTITIONS)
            except RowError as error:
                self._find(f"the worker wrote a row that it would refuse: {error}")
        for found in changes.circuits:
            circuit = None if found.value is None else read_published(found.value)
            if circuit is not None:
                self.published[circuit.circuit_id] = circuit

    def _check_outputs(self, changes: Changes) -> None:
        for key, (_, value) in changes.rows.items():
            if value is not None and len(value) > 3_500_000:
                self._find(f"the row {key[:50]!r} has {len(value)} bytes")
        for letter in changes.dead:
            if (
                letter.size > MAX_LETTER_BYTES
                or DeadLetter.from_record(letter.value, letter.headers()).key != letter.key
            ):
                self._find(f"the dead letter {letter.key!r} does not fit or does not read back")
        for found in changes.circuits:
            if found.value is not None:
                decode_view(found.value)
                if len(found.value) > 1_000_000 or read_published(found.value) is None:
                    self._find(
                        f"the record of {found.circuit_id[:50]!r} has {len(found.value)} bytes, or can't be read back"
                    )

    def _check_sink(self, executions: list[Message], changes: Changes) -> None:
        """Check that the sink and the worker agree on every message: counted and stored, or a dead letter."""
        originals = [each for each in executions if all(name != REKEYED for name, _ in each.headers)]
        rows = ExecutionRows().rows(originals)  # type: ignore[arg-type]
        places = {f"{each.topic}-{each.partition}-{each.offset}".encode() for each in originals}
        worker = {letter.key for letter in changes.dead if "LogAppendTime" not in letter.reason} & places
        sink = {letter.key for letter in rows.dead} - {
            letter.key for letter in changes.dead if "LogAppendTime" in letter.reason
        }
        if worker != sink:
            key = next(iter(worker ^ sink))
            value = next(
                repr(each.value)[:300]
                for each in executions
                if f"{each.topic}-{each.partition}-{each.offset}".encode() == key
            )
            self._find(f"the {'worker' if key in worker else 'sink'} alone refuses {value}")

    def _throw_row(self) -> None:
        """Apply a row as :meth:`DurableTable.restore` does. A row that is refused changes nothing."""
        key, value = hostile.row(self.rng)
        try:
            check_row(key, value, self.rng.randrange(PARTITIONS), PARTITIONS)
        except RowError:
            return
        if not key.startswith(b"good-"):
            self.rows[key] = value

    def _throw_circuit(self) -> None:
        _, value = hostile.circuit(self.rng)
        circuit = read_published(value)
        if circuit is not None and circuit.tool_name not in GOOD:
            self.published[circuit.circuit_id] = circuit
        with suppress(UnreadableCircuitError):
            decode_view(value)
        _, body, headers = hostile.letter(self.rng)
        with suppress(KeyError, ValueError):
            DeadLetter.from_record(body, headers)  # type: ignore[arg-type]

    def _find(self, what: str) -> None:
        self.result.findings.append(f"{what} (seed {self.result.seed}, after {self.result.records} records)")


def fold(seed: int, seconds: float) -> Result:
    """Fuzz for ``seconds``, or until there are twenty findings."""
    rng, result = random.Random(seed), Result(seed)
    owner = Owner(rng, result)
    end = time.monotonic() + seconds
    for number in itertools.count(1):
        if time.monotonic() > end or len(result.findings) >= 20:
            return result
        try:
            owner.batch()
            if number % RESTART_EVERY == 0:
                owner.take_over()
        except Exception as error:
            result.findings.append(f"{error!r} ended it (seed {seed}, batch {number})")
            raise
    return result
