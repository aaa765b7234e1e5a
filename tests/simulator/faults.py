"""The simulated faults: which, when, and where."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from switchgear_schemas import Command, Verb
from tests.simulator.agenda import EPOCH

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation
    from tests.simulator.tools import SimulatedServer, SimulatedTool


_VERBS: Final[tuple[Verb, ...]] = ("force_open", "close", "reset", "disable", "metrics_only", "auto")
_TAKING_BACK: Final = frozenset({"close", "reset", "auto"})
_COMMAND_HOLDS_S: Final = 120.0


class Faults:
    """Every kind of fault is a Poisson process, drawn from the simulation's generator."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.counts: dict[str, int] = {}
        scenario = simulation.scenario
        workers = simulation.workers
        self._repeat("worker crashes", scenario.worker_crash_every_s, workers.crash)
        self._repeat("paused workers", scenario.zombie_every_s, workers.freeze)
        self._repeat("worker outages", scenario.worker_outage_every_s, workers.outage)
        self._repeat("process crashes", scenario.process_crash_every_s, self._crash_one)
        self._repeat("deaf followers", scenario.stale_every_s, self._deafen)
        self._repeat("cut emitters", scenario.cut_every_s, self._mute)
        self._repeat("commands", scenario.command_every_s, self._command)

    def crash(self, process: SimulatedProcess) -> None:
        """Kill a process. Another one takes its place within half a minute."""
        simulation = self._simulation
        if not process.alive:
            return
        process.alive = False
        simulation.audit.crashed(process)
        simulation.agenda.after(simulation.rng.uniform(0.5, 30), simulation.start_process, process.number)

    def _repeat(self, name: str, every_s: float, action: Callable[[], None]) -> None:
        self.counts[name] = 0
        if every_s:
            self._next(name, every_s, action)

    def _next(self, name: str, every_s: float, action: Callable[[], None]) -> None:
        simulation = self._simulation
        at = simulation.agenda.now + simulation.rng.expovariate(1 / every_s)
        if at < simulation.scenario.length_s:
            simulation.agenda.at(at, self._do, name, every_s, action)

    def _do(self, name: str, every_s: float, action: Callable[[], None]) -> None:
        self.counts[name] += 1
        action()
        self._next(name, every_s, action)

    def _any_process(self) -> SimulatedProcess:
        return self._simulation.rng.choice(self._simulation.processes)

    def _crash_one(self) -> None:
        self.crash(self._any_process())

    def _deafen(self) -> None:
        process = self._any_process()
        if process.alive and process.deaf_since is None:
            process.catch_up()
            process.deaf_since = self._simulation.agenda.now
            process.follower.cut()
            self._simulation.agenda.after(self._simulation.rng.uniform(0.5, 60), self.hear, process)

    def hear(self, process: SimulatedProcess) -> None:
        """Let the follower of a process that was cut off go on where it was."""
        if process.deaf_since is not None:
            process.deaf_since, process.disturbed_at = None, self._simulation.agenda.now
            process.seen_at = max(process.seen_at, self._simulation.agenda.now)
            process.catch_up()
            process.follower.mend()

    def _mute(self) -> None:
        process = self._any_process()
        if process.alive and process.mute_since is None:
            process.mute_since = self._simulation.agenda.now
            process.emitter.cut()
            self._simulation.agenda.after(self._simulation.rng.uniform(0.5, 60), self.speak, process)

    def speak(self, process: SimulatedProcess) -> None:
        """Let a process that was cut off send again, starting with its buffer."""
        if process.mute_since is not None:
            process.mute_since, process.disturbed_at = None, self._simulation.agenda.now
            if process.alive:
                process.emitter.connect()

    def _command(self) -> None:
        simulation = self._simulation
        of: SimulatedTool | SimulatedServer = simulation.rng.choice([*simulation.tools, *simulation.servers])
        if of.foreign:
            return  # commands and copies of foreign events have no order between them, so the rebuild could not repeat it
        verb = simulation.rng.choice(_VERBS)
        if verb in _TAKING_BACK and not simulation.audit.rebuild.has_row(of.circuit_id):
            return  # without a row it changes nothing, and no row says when it was read, so the rebuild could not repeat it
        until = None
        if verb == "force_open" and simulation.rng.random() < 0.5:
            until = datetime.fromtimestamp(EPOCH + simulation.agenda.now + simulation.rng.uniform(5, 90), UTC)
        self._send(of, verb, until)
        if verb in {"force_open", "disable", "metrics_only"}:
            simulation.agenda.after(_COMMAND_HOLDS_S, self._send, of, "auto")

    def _send(self, of: SimulatedTool | SimulatedServer, verb: Verb, until: datetime | None = None) -> None:
        simulation = self._simulation
        command = Command(
            command_id=UUID(simulation.mint()),
            tool_name=of.name,
            circuit_id=of.circuit_id if of.circuit_id != of.name else None,
            verb=verb,
            actor="operator",
            reason="drill",
            until=until,
        )
        simulation.log.append(simulation.names.commands, of.name.encode(), command.to_bytes(), partition=of.partition)
