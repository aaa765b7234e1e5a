"""A log, a worker that crashes, and its durable state, without Kafka. The promises of the fold are tested with it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from switchgear.fleet import Changes, FleetFold, Known, Message, PublishedCircuit, Row, read_published
from switchgear.fleet.registry import Limits
from switchgear_schemas import FAMILY_DEFAULT, BreakerPolicy, Circuit, DeadLetter
from switchgear_schemas.partitioner import partition_of

EXECUTIONS = "t.executions"
COMMANDS = "t.commands"
START_MS = 1_800_000_000_000
COUNTING = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=10)

Crash = Literal["before_rows", "during_rows", "after_rows", "after_outputs"]


class OnePolicy:
    """The same policy for every tool, and one for every family. A test may replace it."""

    def __init__(self, policy: BreakerPolicy = COUNTING, family_policy: BreakerPolicy = FAMILY_DEFAULT) -> None:
        self.policy = policy
        self.family_policy = family_policy

    def effective(self, _tool_name: str) -> BreakerPolicy:
        return self.policy

    def effective_family(self, _family: str) -> BreakerPolicy:
        return self.family_policy


def event(tool_name: str = "search", status: str = "success", **fields: Any) -> bytes:
    """Return an execution as JSON."""
    return msgspec.json.encode({"tool_name": tool_name, "status": status, **fields})


def at(seconds: float) -> str:
    """Return an instant of the log's clock as in JSON."""
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC).isoformat()


@dataclass
class World:
    """The state that survives a worker: the log, the changelog, the circuits topic and the committed offsets."""

    partitions: int = 4
    added: int = 0
    """Partitions that the input topics have beyond those in which circuits are kept."""
    policies: OnePolicy = field(default_factory=OnePolicy)
    late_after_s: float = 300
    limits: Limits = field(default_factory=Limits)
    fold_type: type[FleetFold] = FleetFold
    log: dict[tuple[str, int], list[Message]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[bytes, bytes] = field(default_factory=dict)
    circuits: list[bytes] = field(default_factory=list)
    buried: dict[str, int] = field(default_factory=dict)
    """By circuit id, the number of records when its last tombstone was written."""
    dead: list[DeadLetter] = field(default_factory=list)
    committed: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    counted: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start a new worker on the durable state, as after a crash."""
        self.fold = self.fold_type(
            self.rows, self.policies, partitions=self.partitions, late_after_s=self.late_after_s, limits=self.limits
        )
        newest: dict[str, PublishedCircuit] = {}
        for number, value in enumerate(self.circuits):
            circuit = read_published(value)
            assert circuit is not None
            if number < self.buried.get(circuit.circuit_id, 0):
                continue
            if circuit.circuit_id not in newest or circuit.version >= newest[circuit.circuit_id].version:
                newest[circuit.circuit_id] = circuit
        ends = {
            topic: {p: len(self.log[topic, p]) for p in range(self.partitions + self.added)}
            for topic in (EXECUTIONS, COMMANDS)
        }
        self.fold.take_over(Known(newest, ends[EXECUTIONS], ends[COMMANDS]))
        self.write(self.fold.take())

    def append(
        self,
        value: bytes | None,
        *,
        tool_name: str = "search",
        seconds: float = 0,
        partition: int | None = None,
        topic: str = EXECUTIONS,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> Message:
        """Append a message as a producer does, by default to the partition that owns the tool."""
        number = partition_of(tool_name, self.partitions) if partition is None else partition
        log = self.log[topic, number]
        message = Message(
            topic, number, len(log), START_MS + int(seconds * 1000), tool_name.encode(), value, headers or []
        )
        log.append(message)
        return message

    def say(self, status: str = "success", *, tool_name: str = "search", seconds: float = 0, **fields: Any) -> None:
        """Append an execution."""
        self.append(event(tool_name, status, **fields), tool_name=tool_name, seconds=seconds)

    def run(self, *, batch: int = 1000, crash: Crash | None = None) -> bool:
        """Fold a batch of the first partition that has one. Return False if everything is folded."""
        for place, log in sorted(self.log.items()):
            records = log[self.committed[place] : self.committed[place] + batch]
            if records:
                self._fold(place, records, crash)
                return True
        return False

    def run_all(self, batch: int = 1000) -> None:
        """Fold everything."""
        while self.run(batch=batch):
            pass

    def _fold(self, place: tuple[str, int], records: list[Message], crash: Crash | None) -> None:
        (self.fold.commands if place[0] == COMMANDS else self.fold.executions)(records)
        changes = self.fold.take()
        if crash == "before_rows":
            self.start()
            return
        if crash == "during_rows":  # a beginning of them, in their order
            changes.rows = dict(list(changes.rows.items())[: len(changes.rows) // 2])
        self.write(changes, outputs=crash == "after_outputs" or crash is None)
        if crash is not None:
            self.start()
            return
        self.committed[place] += len(records)

    def write(self, changes: Changes, *, outputs: bool = True) -> None:
        for key, (_tool, value) in changes.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        if not outputs:
            return
        for published in changes.circuits:
            if published.value is None:
                self.buried[published.circuit_id] = len(self.circuits)
            else:
                self.circuits.append(published.value)
        self.dead.extend(changes.dead)
        for copy in changes.rekeyed:
            self.append(copy.value, tool_name=copy.tool_name, topic=copy.topic, headers=copy.headers)
        for name in ("folded", "commands", "duplicates", "late", "leases", "retired"):
            setattr(self.counted, name, getattr(self.counted, name) + getattr(changes, name))

    def row(self, circuit_id: str = "search") -> Row:
        """Return a circuit's durable row."""
        return Row.decode(self.rows[circuit_id.encode()])

    def records(self, circuit_id: str = "search") -> list[Circuit]:
        """Return every published record of a circuit, in the order of the log."""
        found = [Circuit.from_bytes(value) for value in self.circuits]
        return [circuit for circuit in found if circuit.circuit_id == circuit_id]


def failed_row() -> Row:
    """Return the row of a circuit after five failures, as its owner wrote it."""
    world = World()
    for _ in range(5):
        world.say("error", emitter_id="e1", input_tokens=7)
    world.run_all()
    return world.row()
