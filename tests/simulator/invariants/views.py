"""At rest every process sees of every circuit what the log says last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.records import Records

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess


NAME: Final = "views-converge"


class Views:
    """Compares the guards' tables with the topic."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self.compared = 0

    def finish(self, processes: list[SimulatedProcess], records: Records) -> None:
        """At the end, when everything has arrived."""
        for process in processes:
            if not process.alive:
                continue
            views = process.follower.table.views
            for circuit_id, record in records.newest.items():
                self.compared += 1
                view = views.get(circuit_id)
                seen = None if view is None else (view.version, view.state, view.generation)
                if seen != (record["version"], record["state"], record["generation"]):
                    what = f"{process.name} sees {seen}, the log says version {record['version']}: {record['state']}"
                    raise self._histories.broken(NAME, circuit_id, what)

    def line(self) -> str:
        """What was seen."""
        return f"{NAME}: held ({self.compared} views)"
