"""Network: how long a message takes to the broker, in which order messages arrive, and which never do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.fleet import Message

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


LINGER_S: Final = 0.005
"""The emitter's own, for what is not urgent."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Feed:
    """The records of the circuits topic in the order in which they were written, and when."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.records: list[dict[str, Any]] = []
        self.at: list[float] = []

    def add(self, message: Message, now: float) -> dict[str, Any]:
        """One more record; returns its fields."""
        record = self.parsed(message)
        self.messages.append(message)
        self.records.append(record)
        self.at.append(now)
        return record

    @staticmethod
    def parsed(message: Message) -> dict[str, Any]:
        """A record as plain JSON fields."""
        assert message.value is not None, "no circuit of a tool retires"
        return _decode(message.value)


class Network:
    """Between processes and the broker. Of one process messages arrive in their order; a dead one's don't arrive."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.lost = 0
        """Events that died with their process."""

    def latency_s(self) -> float:
        """One way: a few milliseconds, one in a hundred more than 70."""
        return 0.001 + 0.1 * self._simulation.rng.random() ** 16

    def transmit(self, process: SimulatedProcess, tool: str, value: bytes, urgent: bool) -> None:
        """Send one event on its way."""
        simulation = self._simulation
        linger = 0.0 if urgent else LINGER_S * simulation.rng.random()
        arrives = max(process.sent_until, simulation.agenda.now + linger + self.latency_s())
        process.sent_until = arrives
        simulation.agenda.at(arrives, self._arrive, process, tool, value)

    def _arrive(self, process: SimulatedProcess, tool: str, value: bytes) -> None:
        if not process.alive:
            self.lost += 1
            return
        self._simulation.receive(self._simulation.by_name[tool], value)
