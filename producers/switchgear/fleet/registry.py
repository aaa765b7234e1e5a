"""CircuitRegistry: the circuits at hand. The table is the truth; what is awake here is a cache of it, dropped at any time between batches.

The table is bounded, whatever names callers invent. A user or session too many shares its tool's circuit; a tool too many is refused, and
its events are dead letters. Idle circuits make room: which ones depends on the rows and the log's clock alone, so that a replay agrees.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from zlib import crc32

from switchgear.breaker import Breaker
from switchgear.breaker.breaker import IDLE_S, may_retire
from switchgear.breaker.registry import LOOKED_AT, MAX_CIRCUITS_PER_TOOL
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.policy_overrides import PolicyOverrides, is_circuit, tolerant
from switchgear.fleet.rows import Row, first_applied, first_version
from switchgear_schemas import BreakerPolicy, InvalidExecutionError, Scope, Verb
from switchgear_schemas.partitioner import owner_partition

MAX_AWAKE: Final = 50_000
"""Circuits kept awake between batches, about 2 kB each; beyond it all go back to sleep."""

_STANDING: Final[Mapping[str, Verb]] = {
    "forced_open": "force_open",
    "disabled": "disable",
    "metrics_only": "metrics_only",
}


class Policies(Protocol):
    """Where a tool's policy comes from; :class:`switchgear.policies.PolicySet` is one."""

    def effective(self, tool_name: str) -> BreakerPolicy:
        """The policy in force for a tool."""
        ...


class CircuitRegistry:
    """Circuits by id, read from ``rows`` (key and value as in the table) when first asked for.

    Args:
        rows: the table; read only.
        policies: the policy file.
        partitions: of the executions topic.
        limits: how many circuits there may be.
    """

    def __init__(self, rows: Mapping[bytes, bytes], policies: Policies, *, partitions: int, limits: Limits) -> None:
        self.rows = rows
        self.limits = limits
        self._policies = policies
        self._partitions = partitions
        self._known: CircuitIndex | None = None
        self._standing: dict[int, PolicyOverrides] = {}
        self.awake: dict[str, LiveCircuit] = {}
        self.gone: dict[str, LiveCircuit] = {}
        """Retired since the last :meth:`settle`: still in the table."""
        self.retired: list[LiveCircuit] = []
        """Retired and not yet told; the fold takes them from here."""

    @property
    def roster(self) -> CircuitIndex:
        """The names of all circuits, read from the table when first needed: nothing was added before."""
        if self._known is None:
            self._known = CircuitIndex(self._partitions)
            self._known.fill(data for key, data in self.rows.items() if is_circuit(key))
        return self._known

    def forget(self) -> None:
        """Drop what is awake: after a rebalance the table alone counts."""
        self.awake.clear()
        self.gone.clear()
        self.retired.clear()
        self._standing.clear()
        self._known = None

    def roll_back(self) -> None:
        """Drop what is awake and differs from the table. The names stay known: reading them from the table again takes long."""
        if self._known is not None:
            for live in self.awake.values():
                if live.row.key not in self.rows:
                    self._known.discard(live.row)
            for live in self.gone.values():
                if live.row.key in self.rows:
                    self._known.add(live.row)
        self.awake.clear()
        self.gone.clear()
        self.retired.clear()
        self._standing.clear()

    def settle(self) -> None:
        """What was taken is in the table. Keep the cache bounded: nothing awake differs from the table now."""
        self.gone.clear()
        if len(self.awake) > MAX_AWAKE:
            self.awake.clear()

    def policy_of(self, row: Row) -> BreakerPolicy:
        """The file's, under what operators set by glob, under what they set for this tool."""
        base, layers = self._policies.effective(row.tool_name), self.layers(row)
        return tolerant(base, layers) if layers else base

    def layers(self, row: Row) -> tuple[bytes, ...]:
        """What operators set of a tool's policy, topmost last."""
        return self.layers_in(self.standing(owner_partition(row.tool_name, self._partitions)), row)

    @staticmethod
    def layers_in(standing: PolicyOverrides, row: Row) -> tuple[bytes, ...]:
        """:meth:`layers` with the policies by glob given."""
        layers = standing.layers(row.tool_name) if standing.tables else []
        return (*layers, row.policy) if row.policy is not None else tuple(layers)

    def standing(self, partition: int) -> PolicyOverrides:
        """The policies that operators set by glob, as ``partition`` has them."""
        found = self._standing.get(partition)
        if found is None:
            found = PolicyOverrides(partition=partition)
            data = self.rows.get(found.key)
            found = self._standing[partition] = found if data is None else PolicyOverrides.decode(data)
        return found

    def file_policy(self, tool_name: str) -> BreakerPolicy:
        """The policy file's alone."""
        return self._policies.effective(tool_name)

    def tools_of(self, partition: int) -> list[str]:
        """The names of a partition's tools."""
        return list(self.roster.tools_in(partition))

    def find(self, circuit_id: str) -> LiveCircuit | None:
        """A circuit that has been seen before and is not retired."""
        live = self.awake.get(circuit_id)
        if live is None and circuit_id not in self.gone:
            data = self.rows.get(circuit_id.encode())
            if data is not None:
                live = self.awake[circuit_id] = self.load(data)
        return live

    def load(self, data: bytes) -> LiveCircuit:
        """Wake a row without keeping it awake."""
        row = Row.decode(data)
        owner = row if row.scope == "tool" else self._tool_row(row)
        policy = self.policy_of(owner)
        return LiveCircuit(row, Breaker.restore(row.breaker, policy), policy)

    def tool(self, tool_name: str, now: float) -> LiveCircuit:
        """The tool's own circuit, new where the tool is.

        Raises:
            TooManyToolsError: the partition holds as many tools as it may, and none that was looked at is idle.
        """
        found = self.find(tool_name)
        if found is not None:
            return found
        row = Row(circuit_id=tool_name, tool_name=tool_name)
        tools = self.roster.tools_beside(tool_name)
        if len(tools) >= self.limits.tools:
            if not self._make_room(tools, tool_name, now, self.limits.tool_idle_s, self.limits.tools):
                raise TooManyToolsError(self.limits)
            row.applied = first_applied(now)
        return self._add(row, now)

    def scoped(self, tool: LiveCircuit, scope: Scope, whose: str, now: float) -> LiveCircuit:
        """The circuit of one user or session with a tool, new where they are; a pinned tool pins it too.

        Where the tool has as many as it may, and none that was looked at is idle, it is the tool's own circuit.
        """
        name = tool.row.tool_name
        circuit_id = f"{name}|{scope}={whose}"
        found = self.find(circuit_id)
        if found is not None:
            return found
        ring = self.roster.scoped_of(name)
        if len(ring) >= self.limits.scoped and not self._make_room(ring, circuit_id, now, IDLE_S, self.limits.scoped):
            return tool
        live = self._add(_scoped_row(circuit_id, name, scope, now), now, tool.policy)
        cause = tool.breaker.cause
        verb = _STANDING.get(tool.breaker.state)
        if tool.breaker.state == "open" and cause is not None and cause.rule == "command":
            verb = "force_open"  # until an instant: the state is open, and probes end it
        if verb is not None and tool.breaker.state != live.breaker.state:
            live.row.command_until = tool.row.command_until if verb != "force_open" else None
            live.breaker.command(
                verb,
                now,
                actor=(cause and cause.actor) or "policy",
                reason=(cause and cause.reason) or "",
                until=tool.breaker.open_until if verb == "force_open" else None,
            )
        return live

    def of_tool(self, tool_name: str) -> Iterator[LiveCircuit]:
        """Every circuit of a tool, its own included."""
        for circuit_id in [tool_name, *self.roster.scoped_of(tool_name)]:
            live = self.find(circuit_id)
            if live is not None:
                yield live

    def adopt(self, circuit_id: str, tool_name: str, scope: Scope, now: float) -> LiveCircuit:
        """A fresh circuit for an id that readers know and the table doesn't."""
        row = _scoped_row(circuit_id, tool_name, scope, now)
        row.clock = now
        return self._add(row, now)

    def _make_room(self, ring: Ring, name: str, now: float, idle_s: float, limit: int) -> bool:
        for circuit_id in ring.after(name, LOOKED_AT):
            live = self._idle(circuit_id, now, idle_s)
            if live is not None:
                self._retire(live)
                if len(ring) < limit:
                    return True
        return False

    def _idle(self, circuit_id: str, now: float, idle_s: float) -> LiveCircuit | None:
        """The circuit, where it may retire. Judged on a copy: looking at a circuit must not change it."""
        live = self.awake.get(circuit_id)
        row = Row.decode(self.rows[circuit_id.encode()]) if live is None else live.row
        if now - row.clock < idle_s:
            return None
        if row.scope == "tool" and (
            row.record is not None or row.policy is not None or row.commands or len(self.roster.scoped_of(circuit_id))
        ):
            return None
        if live is None:
            live = self.load(self.rows[circuit_id.encode()])
        copy = Breaker.restore(live.breaker.snapshot(), live.policy)
        return live if may_retire(copy, now, idle_s) else None

    def _retire(self, live: LiveCircuit) -> None:
        circuit_id = live.row.circuit_id
        self.awake.pop(circuit_id, None)
        self.gone[circuit_id] = live
        self.roster.discard(live.row)
        self.retired.append(live)

    def _tool_row(self, row: Row) -> Row:
        data = self.rows.get(row.tool_name.encode())
        awake = self.awake.get(row.tool_name)
        if awake is not None:
            return awake.row
        return row if data is None else Row.decode(data)

    def _add(self, row: Row, now: float, policy: BreakerPolicy | None = None) -> LiveCircuit:
        policy = policy or self.policy_of(row)
        live = LiveCircuit(row, Breaker(row.circuit_id, policy, now), policy)
        self.roster.add(row)
        self.gone.pop(row.circuit_id, None)
        self.awake[row.circuit_id] = live
        return live


def _scoped_row(circuit_id: str, tool_name: str, scope: Scope, now: float) -> Row:
    """A new row; one that may have retired before starts above all that it had then."""
    row = Row(circuit_id=circuit_id, tool_name=tool_name, scope=scope)
    if scope != "tool":
        row.applied, row.version = first_applied(now), first_version(now)
    return row


MAX_TOOLS: Final = 50_000
"""Tools of one partition: about 1 kB each in the table. It is a bound against invented names, not a size to plan for."""
MAX_SCOPED: Final = MAX_CIRCUITS_PER_TOOL
"""Circuits of users or sessions of one tool; the local breakers have the same bound."""


class Ring:
    """Names in the order of their hashes: an order that depends on nothing but the names, so every owner looks at the same ones."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._places)

    def add(self, name: str) -> None:
        """Put a name in; one that is there stays."""
        place = _place(name)
        at = bisect_left(self._places, place)
        if at == len(self._places) or self._places[at] != place:
            insort(self._places, place)

    def discard(self, name: str) -> None:
        """Take a name out, if it is there."""
        place = _place(name)
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            del self._places[at]

    def after(self, name: str, count: int) -> list[str]:
        """Up to ``count`` names that follow ``name``, around the end."""
        at = bisect_left(self._places, _place(name))
        return [found for _, found in (self._places[at : at + count] + self._places[: max(0, at + count - len(self))])][
            : min(count, len(self))
        ]


class CircuitIndex:
    """The names of all rows: tools by partition, users' and sessions' circuits by tool."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._tools: dict[int, Ring] = {}
        self._scoped: dict[str, Ring] = {}

    def fill(self, rows: Iterable[bytes]) -> None:
        """Add every row of a table."""
        for data in rows:
            self.add(Row.decode(data))

    def tools_beside(self, tool_name: str) -> Ring:
        """The tools of the partition that owns ``tool_name``."""
        return self.tools_in(owner_partition(tool_name, self._partitions))

    def tools_in(self, partition: int) -> Ring:
        """The tools of a partition."""
        return self._tools.setdefault(partition, Ring())

    def scoped_of(self, tool_name: str) -> Ring:
        """The users' and sessions' circuits of a tool; a copy where there are none."""
        return self._scoped.get(tool_name) or Ring()

    def add(self, row: Row) -> None:
        """A circuit exists."""
        if row.scope == "tool":
            self.tools_beside(row.tool_name).add(row.circuit_id)
        else:
            self._scoped.setdefault(row.tool_name, Ring()).add(row.circuit_id)

    def discard(self, row: Row) -> None:
        """A circuit exists no more."""
        if row.scope == "tool":
            self.tools_beside(row.tool_name).discard(row.circuit_id)
            return
        ring = self._scoped.get(row.tool_name)
        if ring is not None:
            ring.discard(row.circuit_id)
            if not len(ring):
                del self._scoped[row.tool_name]


def _place(name: str) -> tuple[int, str]:
    return crc32(name.encode()), name


WEEK_S: Final = 604_800.0
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds against invented names.

    Attributes:
        tools: Most tools of one partition.
        scoped: Most users' and sessions' circuits of one tool.
        tool_idle_s: A tool that was never published, commanded or refused retires after this long without an event, in seconds of
            the log's clock: the retention of the executions topic, so that nothing of it is left there to be read again.
    """

    tools: int = MAX_TOOLS
    scoped: int = MAX_SCOPED
    tool_idle_s: float = WEEK_S


class TooManyToolsError(InvalidExecutionError):
    """One more tool than a partition may hold; its events go to the dead letters."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            "tool_name",
            f"this is a new tool, and its partition holds {limits.tools:,} already, the most that a worker keeps apart; "
            "leave ids and arguments out of tool names (they belong into session_id and metadata). "
            f"Names that were not seen for {limits.tool_idle_s / _DAY_S:g} days make room; after that send this letter again",
        )
