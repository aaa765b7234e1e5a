"""The circuits by id. One thread applies records, any thread may read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from switchgear.follower.view import CircuitView, UnreadableCircuitError, Views, decode_view
from switchgear_schemas.enums import CircuitState


class CircuitRecord(Protocol):
    """One record of the circuits topic, as it is read."""

    @property
    def partition(self) -> int:
        """The partition."""
        ...

    @property
    def offset(self) -> int:
        """The place in the partition."""
        ...

    @property
    def timestamp(self) -> int:
        """When the broker wrote it, in milliseconds since 1970."""
        ...

    @property
    def key(self) -> bytes | None:
        """The circuit's id."""
        ...

    @property
    def value(self) -> bytes | None:
        """The circuit in JSON; None if it is removed."""
        ...


class RecordListener(Protocol):
    """Gets the records that change a follower's circuits, in the follower's thread. It must not block or raise."""

    def changed(self, record: CircuitRecord) -> None:
        """Take a record that changes its circuit, or removes it."""

    def restarted(self) -> None:
        """Forget everything when :meth:`loaded` comes next: the topic was created again, and its circuits come from the start."""

    def loaded(self) -> None:
        """Take note that the topic was read to the end that it had when the connection was made."""


class CircuitTable:
    """The highest version of every circuit. Records may come twice, late, or from a paused former owner, so lower ones are dropped."""

    decode = staticmethod(decode_view)
    """Turns a record's bytes into a view. Many followers in one process may share the work."""

    def __init__(self) -> None:
        self.views = Views()
        """By circuit id. Only read it."""
        self.scoped: set[str] = set()
        """Tools that have, or had, circuits of users, sessions or targets."""
        self.families: set[str] = set()
        """Ids of the circuits of families that have, or had, a record."""
        self.malformed = 0
        self.last_malformed: str | None = None

    def apply(self, key: bytes | None, value: bytes | None) -> CircuitView | None:
        """Apply one record. Return the circuit's new view if it changed, else None.

        A record without a value removes its circuit. A record that can't be read is counted and skipped.
        """
        if value is None:
            if key is not None:
                self.views.pop(key.decode(errors="replace"), None)
            return None
        try:
            view = self.decode(value)
        except UnreadableCircuitError as error:
            self.refuse(str(error))
            return None
        known = self.views.known(view.circuit_id)
        if known is not None and known.version >= view.version:
            return None
        if view.scope not in ("tool", "family"):
            self.scoped.add(view.tool_name)
        elif view.scope == "family":
            self.families.add(view.circuit_id)
        self.views[view.circuit_id] = view
        return view

    def refuse(self, reason: str) -> None:
        """Count a record that can't be read."""
        self.malformed += 1
        self.last_malformed = reason

    def replace(self, other: CircuitTable) -> None:
        """Take over another table's circuits, lower versions too, because the topic was created again."""
        self.views.update(other.views)
        self.scoped.update(other.scoped)
        self.families.update(other.families)
        for circuit_id in self.views.keys() - other.views.keys():
            del self.views[circuit_id]

    def snapshot(self) -> Mapping[str, CircuitView]:
        """Return a copy of the views, by circuit id."""
        return MappingProxyType(self.views.copy())

    def states(self) -> dict[str, CircuitState]:
        """Return the states by circuit id. A circuit that an operator opened is ``forced_open``."""
        return {each: "forced_open" if view.forced else view.state for each, view in self.views.copy().items()}
