"""The simulated workers: which of them owns a partition, and what happens when one dies or stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from switchgear.fleet import Changes
from switchgear.testing.worker import MemoryWorker
from tests.simulator.scenario import FAMILY_PATTERN
from tests.support.crashes import CrashPoint, crash

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


POLL_S: Final = 0.004
"""Time from a record on the broker to the batch that folds it."""
PATIENCE_S: Final = 60.0
"""How long a worker that is going to fail waits for a batch that publishes records. Most batches publish none."""
POINTS: Final[tuple[CrashPoint, ...]] = ("before_rows", "during_rows", "after_rows", "after_outputs")


class Workers:
    """The group of workers. When its members change, partitions move, and every member recovers from the log."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        scenario = simulation.scenario
        self._all = [
            MemoryWorker(simulation.log, simulation.policies, names=simulation.names, family_pattern=FAMILY_PATTERN)
            for _ in range(scenario.workers)
        ]
        self._up = [True] * scenario.workers
        self._news: list[set[int]] = [set() for _ in range(scenario.workers)]
        self._fates: dict[int, tuple[CrashPoint | Literal["frozen"], float]] = {}
        self._owner: dict[int, int] = {}
        self.away_since: dict[int, float] = {}
        """The partitions without an owner, and since when."""
        self.back_at: dict[int, float] = {}
        """When a partition was last taken over."""
        self.crashes = self.zombies = self.outages = 0
        self.rebalance()

    def away_within(self, partition: int, since: float) -> bool:
        """Return whether the partition was without an owner at some time from ``since`` on."""
        return partition in self.away_since or self.back_at.get(partition, -1.0) >= since

    def notice(self, partition: int) -> None:
        """Have the owner of a partition poll it soon."""
        number = self._owner.get(partition)
        if number is not None:
            if not self._news[number]:
                self._simulation.agenda.after(POLL_S, self._poll, number)
            self._news[number].add(partition)

    def rebalance(self) -> None:
        """Assign the partitions to the members that are up."""
        simulation = self._simulation
        members = [number for number, up in enumerate(self._up) if up]
        if not members:
            return
        for worker in self._all:
            worker.revoke()
        self._owner = {
            partition: members[partition % len(members)] for partition in range(simulation.scenario.partitions)
        }
        for partition in self.away_since:
            self.back_at[partition] = simulation.agenda.now
        self.away_since.clear()
        for number in members:
            self._all[number].assign(partition for partition, owner in self._owner.items() if owner == number)
        for partition in self._owner:
            self.notice(partition)

    def crash(self) -> None:
        """Let one of the workers die during a batch that publishes records."""
        self._plan_failure(self._simulation.rng.choice(POINTS))

    def freeze(self) -> None:
        """Let one of the workers stand still during such a batch. It writes the batch after it was replaced."""
        self._plan_failure("frozen")

    def outage(self) -> None:
        """Stop all workers for a while."""
        self.outages += 1
        for number, up in enumerate(self._up):
            if up:
                self._fates.pop(number, None)
                self._all[number].revoke()
                self._up[number] = False
        for partition in range(self._simulation.scenario.partitions):
            self.away_since.setdefault(partition, self._simulation.agenda.now)
        self._owner.clear()
        self._simulation.agenda.after(self._simulation.rng.uniform(5, 120), self.mend)

    def mend(self) -> None:
        """Start all workers."""
        self._fates.clear()
        self._up = [True] * len(self._up)
        self.rebalance()

    def _poll(self, number: int) -> None:
        news, self._news[number] = self._news[number], set()
        if not self._up[number]:
            return
        fate, worker = self._fates.get(number), self._all[number]
        if fate is None:
            worker.step(news)
            return
        changes = worker.hold()
        if not changes.circuits and self._simulation.agenda.now < fate[1]:
            worker.finish(changes)
        elif fate[0] == "frozen":
            self._freeze(number, changes)
        else:
            self.crashes += 1
            crash(worker, changes, fate[0])
            self._leave(number, self._failover_s(), rejoin=True)

    def _plan_failure(self, what: CrashPoint | Literal["frozen"]) -> None:
        up = [number for number, is_up in enumerate(self._up) if is_up and number not in self._fates]
        if up and (len(up) > 1 or len(self._up) == 1):
            self._fates[self._simulation.rng.choice(up)] = what, self._simulation.agenda.now + PATIENCE_S

    def _freeze(self, number: int, changes: Changes) -> None:
        self.zombies += 1
        simulation = self._simulation
        back = self._failover_s()
        self._leave(number, back, rejoin=False)
        simulation.agenda.after(back + simulation.rng.uniform(0.5, 20), self._thaw, number, changes)

    def _leave(self, number: int, failover_s: float, *, rejoin: bool) -> None:
        simulation = self._simulation
        self._up[number] = False
        self._fates.pop(number, None)
        for partition, owner in list(self._owner.items()):
            if owner == number:
                self.away_since[partition] = simulation.agenda.now
                del self._owner[partition]
        simulation.agenda.after(failover_s, self.rebalance)
        if rejoin:
            simulation.agenda.after(failover_s + simulation.rng.uniform(1, 30), self._return, number)

    def _thaw(self, number: int, changes: Changes) -> None:
        if not self._up[number]:
            self._simulation.stale_writes = True
            crash(self._all[number], changes, "after_outputs")
            self._simulation.stale_writes = False
            self._return(number)

    def _return(self, number: int) -> None:
        if not self._up[number]:
            self._up[number] = True
            self.rebalance()

    def _failover_s(self) -> float:
        return self._simulation.rng.uniform(*self._simulation.scenario.failover_s)
