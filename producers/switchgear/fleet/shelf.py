"""Shelf: the circuits at hand. The table is the truth; what is awake here is a cache of it, dropped at any time between batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from switchgear.breaker import Breaker
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.row import Row
from switchgear_schemas import BreakerPolicy, Scope, Verb

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


class Shelf:
    """Circuits by id, read from ``rows`` (key and value as in the table) when first asked for."""

    def __init__(self, rows: Mapping[bytes, bytes], policies: Policies) -> None:
        self.rows = rows
        self._policies = policies
        self.awake: dict[str, LiveCircuit] = {}

    def forget(self) -> None:
        """Drop what is awake: after a rebalance the table alone counts."""
        self.awake.clear()

    def trim(self) -> None:
        """Keep the cache bounded. Only between batches, when nothing awake differs from the table."""
        if len(self.awake) > MAX_AWAKE:
            self.awake.clear()

    def policy_of(self, row: Row) -> BreakerPolicy:
        """The policy set by command, else the file's."""
        if row.policy is not None:
            return BreakerPolicy.model_validate_json(row.policy)
        return self._policies.effective(row.tool_name)

    def find(self, circuit_id: str) -> LiveCircuit | None:
        """A circuit that has been seen before."""
        live = self.awake.get(circuit_id)
        if live is None:
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
        """The tool's own circuit, new where the tool is."""
        return self.find(tool_name) or self._add(Row(circuit_id=tool_name, tool_name=tool_name), now)

    def scoped(self, tool: LiveCircuit, scope: Scope, whose: str, now: float) -> LiveCircuit:
        """The circuit of one user or session with a tool, new where they are; a pinned tool pins it too."""
        name = tool.row.tool_name
        circuit_id = f"{name}|{scope}={whose}"
        found = self.find(circuit_id)
        if found is not None:
            return found
        live = self._add(Row(circuit_id=circuit_id, tool_name=name, scope=scope), now, tool.policy)
        cause = tool.breaker.cause
        verb = _STANDING.get(tool.breaker.state)
        if tool.breaker.state == "open" and cause is not None and cause.rule == "command":
            verb = "force_open"  # until an instant: the state is open, and probes end it
        if verb is not None and tool.breaker.state != live.breaker.state:
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
        prefix = tool_name.encode()
        stored = [key.decode() for key in self.rows if key.startswith(prefix)]
        for circuit_id in dict.fromkeys([*stored, *self.awake]):
            live = self.find(circuit_id) if circuit_id.startswith(tool_name) else None
            if live is not None and live.row.tool_name == tool_name:
                yield live

    def adopt(self, circuit_id: str, tool_name: str, scope: Scope, now: float) -> LiveCircuit:
        """A fresh circuit for an id that readers know and the table doesn't."""
        return self._add(Row(circuit_id=circuit_id, tool_name=tool_name, scope=scope, clock=now), now)

    def _tool_row(self, row: Row) -> Row:
        data = self.rows.get(row.tool_name.encode())
        awake = self.awake.get(row.tool_name)
        if awake is not None:
            return awake.row
        return row if data is None else Row.decode(data)

    def _add(self, row: Row, now: float, policy: BreakerPolicy | None = None) -> LiveCircuit:
        policy = policy or self.policy_of(row)
        live = LiveCircuit(row, Breaker(row.circuit_id, policy, now), policy)
        self.awake[row.circuit_id] = live
        return live
