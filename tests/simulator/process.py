"""One process of the simulated fleet, with the real guard, breakers, probe coordinator, emitter and follower."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from switchgear.classify import Classification, Classifier
from switchgear.emitter.event import Event
from switchgear.follower.view import decode_view
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.local_circuits import LocalBreakers, LocalPolicies
from switchgear.guard.reporter import Reporter
from switchgear.testing.fakes import MemoryEmitter, MemoryFollower
from tests.simulator.agenda import EPOCH
from tests.simulator.scenario import FAMILY_PATTERN, SILENCE_S
from tests.simulator.tools import SimulatedError

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


_decode: Final = lru_cache(maxsize=65_536)(decode_view)
"""A view is immutable, so a thousand followers share the one of a record."""
_BUFFER: Final = 4_096


class _Emitter(MemoryEmitter):
    """An emitter whose ids of calls are those of the simulation, so that two runs are equal."""

    mint: Callable[[], str]

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """Give the event an id, and send it."""
        if isinstance(event, Event) and event.metric_id is None:
            event.metric_id = self.mint()
        return super().emit(event, urgent=urgent, ended_at=ended_at)


def _classified(error: BaseException) -> Classification | None:
    return error.classification if isinstance(error, SimulatedError) else None


class SimulatedProcess:
    """A process from its start to its death. Its successor is another one.

    Attributes:
        name: Its ``emitter_id``.
        received: The newest record of each circuit that it received, as plain JSON fields, without the guard's reading of it.
        asked: By circuit id, the version about which it asked for a probe, and when it did so first and last.
    """

    def __init__(
        self,
        simulation: Simulation,
        number: int,
        life: int,
        *,
        local_policies: LocalPolicies | None = None,
        classifier: Classifier | None = _classified,
    ) -> None:
        rng = simulation.rng
        self.simulation = simulation
        self.agenda = simulation.agenda
        self.number = number
        self.life = life
        self.name = f"sim{number}.{life}"
        self.alive = True
        far = simulation.scenario.far_skew_s if number % 50 == 0 else 0.0
        self.skew_s = rng.gauss(0.0, simulation.scenario.skew_s) + far * rng.uniform(-1, 1)
        self.boot = rng.uniform(0, 1e6)
        self.delay_s = 0.001 + 0.02 * rng.random()
        self.informed = False
        """Whether it has received a record when it was written, and so knows the time."""
        self.cursor = 0
        self.seen_at = 0.0
        self._reads_at: float | None = None
        self.sent_until = 0.0
        self.deaf_since: float | None = None
        self.mute_since: float | None = None
        self.disturbed_at = -1.0
        """When it was last deaf or mute."""
        self.received: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, tuple[int, float, float]] = {}
        self.emitter = _Emitter(self._send, self.wall, service="sim", emitter_id=self.name, buffer_size=_BUFFER)
        self.emitter.mint = simulation.mint
        self.follower = MemoryFollower(self.monotonic)
        self.follower.table.decode = _decode
        fleet = FleetCircuits(self.follower, self.emitter, silence_s=SILENCE_S, clock=self.monotonic, wall=self.wall)
        reporter = Reporter(self.monotonic, fleet, classifier=classifier)
        local = LocalBreakers(local_policies, self.monotonic)
        self.decision = CircuitDecision(local, reporter, family_pattern=FAMILY_PATTERN)
        self._load()

    def monotonic(self) -> float:
        """Return the time of its monotonic clock: seconds since its machine was booted."""
        return self.boot + self.agenda.now

    def wall(self) -> float:
        """Return the time of its wall clock, which is off by ``skew_s``."""
        now = self.agenda.now if self._reads_at is None else self._reads_at
        return EPOCH + now + self.skew_s

    def visible_at(self, index: int) -> float:
        """Return when record ``index`` of the feed reaches this process."""
        mixed = (index * 2_654_435_761 + self.number * 40_503) & 0xFFFF
        return self.simulation.feed.at[index] + self.delay_s + mixed * 1.5e-7

    def catch_up(self) -> None:
        """Deliver the records that have reached it by now."""
        if self.deaf_since is not None:
            return
        feed, now = self.simulation.feed, self.agenda.now
        while self.cursor < len(feed.messages):
            self.seen_at = max(self.seen_at, self.visible_at(self.cursor))
            if self.seen_at > now:
                break
            # Delivering at the next call has the same effect, but the clock must show the time of arrival.
            self._reads_at = self.seen_at
            self.follower.deliver((feed.messages[self.cursor],))
            self._receive(feed.records[self.cursor])
            self.cursor += 1
            self.informed = True
        self._reads_at = None

    def silent(self, circuit_id: str) -> bool:
        """Return whether it has asked about one version for ``SILENCE_S`` without an answer, by the simulator's own count."""
        asked = self.asked.get(circuit_id)
        return asked is not None and asked[0] == self.version(circuit_id) and asked[2] - asked[1] >= SILENCE_S

    def disturbed_since(self, since: float) -> bool:
        """Return whether it was cut off in either direction at some time from ``since`` on."""
        return self.deaf_since is not None or self.mute_since is not None or self.disturbed_at >= since

    def note_asked(self, circuit_id: str) -> None:
        """Note that it asked for a probe."""
        version, now = self.version(circuit_id), self.agenda.now
        known = self.asked.get(circuit_id)
        first = known[1] if known is not None and known[0] == version else now
        self.asked[circuit_id] = (version, first, now)

    def version(self, circuit_id: str) -> int:
        """Return the version that it knows of a circuit; 0 for none."""
        record = self.received.get(circuit_id)
        return 0 if record is None else int(record["version"])

    def _receive(self, record: dict[str, Any]) -> None:
        if record["version"] > self.version(record["circuit_id"]):
            self.received[record["circuit_id"]] = record

    def _load(self) -> None:
        """Deliver the records that the topic has when the process starts."""
        simulation = self.simulation
        for number in range(simulation.scenario.partitions):
            messages = simulation.log.read(simulation.names.circuits, number, 0)
            self.follower.deliver(messages)
            for message in messages:
                self._receive(simulation.feed.parsed(message))
        self.cursor = len(simulation.feed.messages)
        self.follower.loaded = True

    def _send(self, tool: str, value: bytes, urgent: bool) -> None:
        self.simulation.network.transmit(self, tool, value, urgent)
