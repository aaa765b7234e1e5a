"""What the circuits topic promises its readers.

``versions-rise``: versions strictly rise, each version has one content, none is lost, and the generation rises with every change of state.
``views-converge``: in the end every process has the newest record of every circuit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import Message, Row
from tests.simulator.invariants.broken import Histories

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


NAME: Final = "versions-rise"
CONVERGE: Final = "views-converge"


class Records:
    """Reads the circuits topic as any consumer does, and keeps the record with the highest version."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self.newest: dict[str, dict[str, Any]] = {}
        """The newest record by circuit id."""
        self._bytes: dict[str, bytes] = {}
        self.seen = self.repeated = self.stale = 0

    def published(self, record: dict[str, Any], message: Message) -> bool:
        """Check a record, and return whether it is newer than the ones before."""
        self.seen += 1
        circuit_id = record["circuit_id"]
        known = self.newest.get(circuit_id)
        assert message.value is not None
        if known is not None and record["version"] <= known["version"]:
            if message.value == self._bytes[circuit_id]:
                self.repeated += 1  # a take-over publishes it again, byte for byte
                return False
            if self._simulation.stale_writes:
                self.stale += 1  # a replaced owner wrote it, and readers drop it
                return False
            what = f"version {record['version']} follows {known['version']} with another content"
            raise self._histories.broken(NAME, circuit_id, what)
        if known is not None:
            self._follows(circuit_id, known, record)
        self.newest[circuit_id] = record
        self._bytes[circuit_id] = message.value
        self._histories.note(
            circuit_id,
            "version {}, generation {}: {} ({}), open until {}",
            record["version"],
            record["generation"],
            record["state"],
            record["cause"] and record["cause"]["rule"],
            record["open_until"],
        )
        return True

    def finish(self, rows: dict[str, Row]) -> None:
        """Check at the end that every record of a row was published."""
        for circuit_id, row in rows.items():
            newest = self.newest.get(circuit_id)
            version = 0 if newest is None else newest["version"]
            if row.record is not None and row.version > version:
                what = f"the owner's row has version {row.version}, the topic {version}: a record was lost"
                raise self._histories.broken(NAME, circuit_id, what)

    def _follows(self, circuit_id: str, known: dict[str, Any], record: dict[str, Any]) -> None:
        before, after = known["generation"], record["generation"]
        changed = known["state"] != record["state"]
        if after < before or (changed and after == before):
            what = f"{known['state']} of generation {before} became {record['state']} of generation {after}"
            raise self._histories.broken(NAME, circuit_id, what)

    def line(self) -> str:
        """Return the result in one line."""
        return (
            f"{NAME}: held ({self.seen} records of {len(self.newest)} circuits;"
            f" {self.repeated} published again, {self.stale} of a replaced owner)"
        )


class Views:
    """Compares the guards' tables with the topic."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self.compared = 0

    def finish(self, processes: list[SimulatedProcess], records: Records) -> None:
        """Compare at the end, when every message has arrived."""
        for process in processes:
            if not process.alive:
                continue
            views = process.follower.table.views
            for circuit_id, record in records.newest.items():
                self.compared += 1
                view = views.get(circuit_id)
                seen = None if view is None else (view.version, view.state, view.generation)
                if seen != (record["version"], record["state"], record["generation"]):
                    what = f"{process.name} sees {seen}, the log has version {record['version']}: {record['state']}"
                    raise self._histories.broken(CONVERGE, circuit_id, what)

    def line(self) -> str:
        """Return the result in one line."""
        return f"{CONVERGE}: held ({self.compared} views)"
