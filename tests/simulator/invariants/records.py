"""Versions strictly rise, one version says one thing, none is lost, and the generation rises with every change of state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import Message, Row
from tests.simulator.invariants.broken import Histories

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


NAME: Final = "versions-rise"


class Records:
    """Reads the circuits topic as any consumer would: the highest version holds."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self.newest: dict[str, dict[str, Any]] = {}
        """By circuit id."""
        self._bytes: dict[str, bytes] = {}
        self.seen = self.repeated = self.stale = 0

    def published(self, record: dict[str, Any], message: Message) -> bool:
        """One more record; whether it is news."""
        self.seen += 1
        circuit_id = record["circuit_id"]
        known = self.newest.get(circuit_id)
        assert message.value is not None
        if known is not None and record["version"] <= known["version"]:
            if message.value == self._bytes[circuit_id]:
                self.repeated += 1  # made up at a take-over: byte for byte
                return False
            if self._simulation.stale_writes:
                self.stale += 1  # a replaced owner: readers drop it
                return False
            what = f"version {record['version']} follows {known['version']} and says something else"
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
        """At the end: whatever a row says was published, whoever died in between."""
        for circuit_id, row in rows.items():
            told = self.newest.get(circuit_id)
            version = 0 if told is None else told["version"]
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
        """What was seen."""
        return (
            f"{NAME}: held ({self.seen} records of {len(self.newest)} circuits;"
            f" {self.repeated} told again, {self.stale} of a replaced owner)"
        )
