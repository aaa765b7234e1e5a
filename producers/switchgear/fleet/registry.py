"""The circuits of one worker: their rows, the few that are live in memory, and what a batch changed.

The table is the truth. A live circuit is a cache of its row, dropped at any time between batches. The table is bounded, whatever
names callers invent: idle circuits make room. Which ones depends on the rows and the log's clock alone, so that a replay agrees.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from switchgear.breaker import Breaker
from switchgear.breaker.states import IDLE_S
from switchgear.breaker.values import LOOKED_AT, MAX_CIRCUITS_PER_TOOL
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import Changes, Published
from switchgear.fleet.policy_overrides import laid_over_or_base, name_owned_by
from switchgear.fleet.rows import PolicyOverrides, Row, first_applied, first_version, is_circuit
from switchgear_schemas import BreakerPolicy, CircuitScope, InvalidExecutionError
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.circuit_ids import read_circuit_id, tool_circuit
from switchgear_schemas.families import DEFAULT_PATTERN, family_of
from switchgear_schemas.partitioner import partition_of

MAX_LIVE: Final = 50_000
"""Circuits that stay live between batches, about 2 kB each. Beyond it all are dropped from memory."""
MAX_TOOLS: Final = 50_000
"""Tools of one partition, about 1 kB each in the table. It is a bound against invented names, not a size to plan for."""
WEEK_S: Final = 604_800.0
_DAY_S: Final = 86_400.0
_WRITTEN: Final[dict[CircuitScope, int]] = {"user": 0, "session": 0, "tenant": 0, "target": 0, "tool": 1, "family": 2}
"""The order of the rows of a batch."""
SPLIT: Final = frozenset(scope for scope, place in _WRITTEN.items() if place == 0)
"""What a tool may have many circuits for."""
REMEMBERED: Final = 65_536
"""Tools whose place stays in memory."""


class PolicySource(Protocol):
    """The source of a tool's policy, such as :class:`switchgear.policies.PolicySet`."""

    def effective(self, tool_name: str) -> BreakerPolicy:
        """Return the policy in force for a tool."""
        ...

    def effective_family(self, family: str) -> BreakerPolicy:
        """Return the policy in force for the circuit of a family."""
        ...


class Place(NamedTuple):
    """Where a tool's circuits are."""

    partition: int
    circuit: str
    """Id of the tool's own circuit."""
    family: str | None
    family_circuit: str
    """Id of the family's circuit. Empty without one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds against invented names.

    Attributes:
        tools: Most tools of one partition. Also its most families.
        scoped: Most circuits of users, sessions or targets of one tool.
        tool_idle_s: Seconds without an event after which a tool may retire that was never published or commanded. It is the
            retention of the executions topic, so that no event of the tool is left there to be read again.
    """

    tools: int = MAX_TOOLS
    scoped: int = MAX_CIRCUITS_PER_TOOL
    tool_idle_s: float = WEEK_S


class CircuitIndex:
    """Names in the order of their hashes. The order depends on the names alone, so every owner looks at the same ones."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._places)

    def add(self, name: str) -> None:
        """Add a name, unless it is there."""
        at, known = self._find(name)
        if not known:
            self._places.insert(at, (crc32(name.encode()), name))

    def discard(self, name: str) -> None:
        """Remove a name, if it is there."""
        at, known = self._find(name)
        if known:
            del self._places[at]

    def after(self, name: str, count: int) -> list[str]:
        """Return up to ``count`` names from ``name`` on. At the end it goes on at the start."""
        at, _ = self._find(name)
        around = self._places[at : at + count] + self._places[:at]
        return [found for _, found in around[:count]]

    def _find(self, name: str) -> tuple[int, bool]:
        place = crc32(name.encode()), name
        at = bisect_left(self._places, place)
        return at, at < len(self._places) and self._places[at] == place


class CircuitRegistry:
    """Circuits by id, read from the table when first needed, and the changes of the present batch.

    Args:
        rows: The table, key and value as bytes. It is only read.
        policies: The policy file.
        partitions: Number of partitions of the executions topic.
        limits: How many circuits there may be.
        family_pattern: Which tools belong to a family.
    """

    def __init__(
        self,
        rows: Mapping[bytes, bytes],
        policies: PolicySource,
        *,
        partitions: int,
        limits: Limits,
        family_pattern: str = DEFAULT_PATTERN,
    ) -> None:
        self.rows = rows
        self.limits = limits
        self.partitions = partitions
        self.sources = partitions
        """Partitions that an input topic has: more than ``partitions`` if some were added to it."""
        self.family_pattern = family_pattern
        self.place_of = lru_cache(maxsize=REMEMBERED)(self._place_of)
        self.changes = Changes()
        self.live: dict[str, LiveCircuit] = {}
        """By circuit id."""
        self.running: dict[str, LiveCircuit] = {}
        """Own circuits of tools that may have a run, by the tool's name."""
        self.touched: dict[str, LiveCircuit] = {}
        """Live circuits whose row differs from the table."""
        self.policies = policies
        self._retired: dict[str, LiveCircuit] = {}
        """Retired in this batch, so their rows are still in the table."""
        self._overrides: dict[int, PolicyOverrides] = {}
        """Changed in this batch, by partition."""
        self._index: dict[int | str, CircuitIndex] | None = None
        """Ids of circuits: of partition its tools', of ``-1 - partition`` its families', and of a tool's name its users', sessions' or targets'.
        None until it is read from the table."""

    # ---- batches

    def take(self) -> Changes:
        """Return the changes of the batch, with their rows encoded, and begin the next batch. Write the rows into the table before it.

        Rows of users, sessions and targets come first, then the tools' (whose fences cover them), then the families', then the deleted rows. A
        crash may leave any beginning of that order on the broker, and the replay is exact from each: what a family did to its tools,
        it does again only to those whose rows are missing.
        """
        changes, self.changes = self.changes, Changes()
        for live in sorted(self.touched.values(), key=lambda live: _WRITTEN[live.row.scope]):
            changes.rows[live.row.key] = (live.row.tool_name, live.encode())
        for retired in self._retired.values():
            changes.rows[retired.row.key] = (retired.row.tool_name, None)
        for overrides in self._overrides.values():
            changes.rows[overrides.key] = (name_owned_by(overrides.partition, self.partitions), overrides.encode())
        for cache in (self.touched, self._retired, self._overrides):
            cache.clear()
        if len(self.live) > MAX_LIVE:
            self.live.clear()
            self.running.clear()
        return changes

    def forget(self) -> None:
        """Drop everything in memory, because the rows changed hands."""
        self._index = None
        self.roll_back()

    def roll_back(self) -> None:
        """Drop everything since the last :meth:`take`. The index stays: reading it from the table again takes long."""
        if self._index is not None:
            for live in self.live.values():
                if live.row.key not in self.rows:
                    self._remove(live.row)
            for live in self._retired.values():
                if live.row.key in self.rows:
                    self._enter(live.row)
        self.changes = Changes()
        for cache in (self.live, self.running, self.touched, self._retired, self._overrides):
            cache.clear()

    def touch(self, live: LiveCircuit) -> None:
        """Note that the row of a circuit changed."""
        self.touched[live.row.circuit_id] = live

    def add_record(self, record: Published | None) -> None:
        """Add a record to the batch, if there is one."""
        if record is not None:
            self.changes.circuits.append(record)

    # ---- policies

    def policy_of(self, row: Row) -> BreakerPolicy:
        """Return the file's policy for a row's tool, under the values that operators set by glob, under those for this tool.

        For a family's row they are the file's policy for the family, under the values that operators set for it.
        """
        if row.scope == "family":
            own = () if row.policy is None else (row.policy,)
            return laid_over_or_base(self.policies.effective_family(row.tool_name), own)
        row = self._tool_row(row)
        layers = self.overrides(self.place_of(row.tool_name).partition).layers(row.tool_name, row.policy)
        return laid_over_or_base(self.policies.effective(row.tool_name), layers)

    def overrides(self, partition: int) -> PolicyOverrides:
        """Return the values that operators set by glob, as ``partition`` has them."""
        found = self._overrides.get(partition) or PolicyOverrides(partition=partition)
        data = self.rows.get(found.key)
        return found if partition in self._overrides or data is None else PolicyOverrides.decode(data)

    def set_overrides(self, overrides: PolicyOverrides) -> None:
        """Replace the values that operators set by glob in one partition."""
        self._overrides[overrides.partition] = overrides

    # ---- circuits

    def tools_of(self, partition: int) -> list[str]:
        """Return the names of a partition's tools."""
        return [read_circuit_id(circuit).name for circuit in self._names(partition)]

    def find(self, circuit_id: str) -> LiveCircuit | None:
        """Return a circuit that exists, or None."""
        live = self.live.get(circuit_id)
        if live is None and circuit_id not in self._retired:
            data = self.rows.get(circuit_id.encode())
            if data is not None:
                live = self.live[circuit_id] = self.load(data)
        if live is not None:
            live.end_run()
        return live

    def load(self, data: bytes) -> LiveCircuit:
        """Return the circuit of a row, without keeping it live."""
        row = Row.decode(data)
        policy = self.policy_of(row)
        return LiveCircuit(row, Breaker.restore(row.breaker, policy), policy, self._family_of(row))

    def tool(self, tool_name: str, now: float) -> LiveCircuit:
        """Return the tool's own circuit. A new tool gets one.

        Raises:
            InvalidExecutionError: The partition holds as many tools as it may, and none of those looked at is idle.
        """
        circuit_id = tool_circuit(tool_name)
        found = self.find(circuit_id)
        if found is not None:
            return found
        return self._add_within_limit(Row(circuit_id=circuit_id, tool_name=tool_name), now)

    def family(self, family: str, now: float) -> LiveCircuit:
        """Return the circuit of a family. A new family gets one.

        Raises:
            InvalidExecutionError: The partition holds as many families as it may, and none of those looked at is idle.
        """
        circuit_id = id_of(family, "family")
        found = self.find(circuit_id)
        if found is None:
            found = self._add_within_limit(Row(circuit_id=circuit_id, tool_name=family, scope="family"), now)
            self.touch(found)  # its tool may be refused, and every circuit that the index knows has a row
        return found

    def _add_within_limit(self, row: Row, now: float) -> LiveCircuit:
        names = self._names(self._group(row))
        if len(names) >= self.limits.tools:
            if not self._make_room(names, row.circuit_id, now, self.limits.tool_idle_s, self.limits.tools):
                raise InvalidExecutionError(
                    "tool_name",
                    f"this is a new {row.scope}, and its partition holds {self.limits.tools:,} already, the most that a worker keeps "
                    "apart; leave ids and arguments out of tool names (they belong into session_id and metadata). Names that were "
                    f"not seen for {self.limits.tool_idle_s / _DAY_S:g} days make room; after that send this letter again",
                )
            row.applied, row.version = first_applied(now), first_version(now)
        return self._add(row, now)

    def scoped(self, tool: LiveCircuit, scope: CircuitScope, name: str, now: float) -> LiveCircuit:
        """Return the circuit of one user, session or target of a tool. A new one takes over an operator's command on the tool.

        If the tool has as many such circuits as it may, and none of those looked at is idle, return the tool's own circuit.
        """
        circuit_id = id_of(tool.row.tool_name, scope, name)
        found = self.find(circuit_id)
        if found is not None:
            return found
        names, limit = self._names(tool.row.tool_name), self.limits.scoped
        if len(names) >= limit and not self._make_room(names, circuit_id, now, IDLE_S, limit):
            return tool
        live = self._add(_new_row(circuit_id, tool.row.tool_name, scope, now), now, tool.policy)
        live.take_over_command(tool, now)
        return live

    def of_tool(self, tool_name: str) -> Iterator[LiveCircuit]:
        """Yield every circuit of a tool, its own one first."""
        for circuit_id in [tool_circuit(tool_name), *self._names(tool_name)]:
            live = self.find(circuit_id)
            if live is not None:
                yield live

    def open_of_family(self, family: str) -> Iterator[LiveCircuit]:
        """Yield the open circuits of a family's tools, and of their users, sessions and targets."""
        for name in self.tools_of(self.place_of(family).partition):
            if self.place_of(name).family == family:
                for circuit_id in [tool_circuit(name), *self._names(name)]:
                    live = self.live.get(circuit_id)
                    if live is None and Row.decode(self.rows[circuit_id.encode()]).state == "open":
                        live = self.find(circuit_id)
                    if live is not None and live.breaker.state == "open":
                        yield live

    def adopt(self, circuit_id: str, tool_name: str, scope: CircuitScope, now: float) -> LiveCircuit:
        """Return a fresh circuit for an id that readers know and the table doesn't."""
        return self._add(_new_row(circuit_id, tool_name, scope, now), now)

    def _make_room(self, names: CircuitIndex, name: str, now: float, idle_s: float, limit: int) -> bool:
        for circuit_id in names.after(name, LOOKED_AT):
            live = self._idle(circuit_id, now, idle_s)
            if live is not None:
                self._retire(live)
                if len(names) < limit:
                    return True
        return False

    def _idle(self, circuit_id: str, now: float, idle_s: float) -> LiveCircuit | None:
        """Return the circuit if it may retire. The look is at a copy of the breaker, because it must not change it."""
        live = self.live.get(circuit_id) or self.load(self.rows[circuit_id.encode()])
        live.end_run()
        row = live.row
        if now - row.clock < idle_s:
            return None
        if row.scope in ("tool", "family") and (
            _says_more(live) or row.policy or row.commands or (row.scope == "tool" and len(self._names(row.tool_name)))
        ):
            return None
        copy = Breaker.restore(live.breaker.snapshot(), live.policy)
        return live if copy.may_retire(now) else None

    def _retire(self, live: LiveCircuit) -> None:
        row = live.row
        self.live.pop(row.circuit_id, None)
        if row.scope == "tool":
            self.running.pop(row.tool_name, None)
        self.touched.pop(row.circuit_id, None)
        self._retired[row.circuit_id] = live
        self._remove(row)
        self.changes.retired += 1
        if row.record is not None:
            self.add_record(Published(row.circuit_id, row.tool_name, "closed", row.version, None))

    def _add(self, row: Row, now: float, policy: BreakerPolicy | None = None) -> LiveCircuit:
        policy = policy or self.policy_of(row)
        row.clock = now
        breaker = Breaker(row.circuit_id, policy, now)
        live = self.live[row.circuit_id] = LiveCircuit(row, breaker, policy, self._family_of(row))
        self._retired.pop(row.circuit_id, None)
        self._enter(row)
        return live

    def _tool_row(self, row: Row) -> Row:
        """Return the row that holds the policy: that of the tool, if it is known."""
        if row.scope == "tool":
            return row
        own = tool_circuit(row.tool_name)
        live = self.live.get(own)
        if live is not None:
            return live.row
        data = self.rows.get(own.encode())
        return row if data is None else Row.decode(data)

    def _names(self, group: int | str) -> CircuitIndex:
        """Return the tools of a partition, or the circuits of a tool's users, sessions or targets."""
        if self._index is None:
            self._index = {}
            for key, data in self.rows.items():
                if is_circuit(key):
                    self._enter(Row.decode(data))
        return self._index.setdefault(group, CircuitIndex())

    def _enter(self, row: Row) -> None:
        self._names(self._group(row)).add(row.circuit_id)

    def _remove(self, row: Row) -> None:
        self._names(self._group(row)).discard(row.circuit_id)
        if row.scope == "tool" and self._index is not None:
            self._index.pop(row.tool_name, None)

    def _group(self, row: Row) -> int | str:
        if row.scope in SPLIT:
            return row.tool_name
        partition = self.place_of(row.tool_name).partition
        return partition if row.scope == "tool" else -1 - partition

    def _family_of(self, row: Row) -> str | None:
        return row.tool_name if row.scope == "family" else self.place_of(row.tool_name).family

    def _place_of(self, tool_name: str) -> Place:
        family = family_of(tool_name, self.family_pattern)
        partition = partition_of(tool_name, self.partitions, self.family_pattern)
        return Place(partition, id_of(tool_name), family, "" if family is None else id_of(family, "family"))


def _says_more(live: LiveCircuit) -> bool:
    """Return whether a circuit has a record that says more than after how long calls are overdue, and how many the tool takes."""
    row = live.row
    only_limit = (
        (row.overdue_after_ms is not None or row.pacing is not None) and row.mode == "enforce" and not row.fallback
    )
    return row.record is not None and not (only_limit and live.breaker.generation == 0)


def _new_row(circuit_id: str, tool_name: str, scope: CircuitScope, now: float) -> Row:
    """Return a new row. If the circuit may have existed before, its numbers start above those it had then."""
    row = Row(circuit_id=circuit_id, tool_name=tool_name, scope=scope)
    if scope in SPLIT:
        row.applied, row.version = first_applied(now), first_version(now)
    return row
