"""The simulated network: when messages arrive at the broker, in which order, and which are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.fleet import Message

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


LINGER_S: Final = 0.005
"""How long the emitter holds back events that aren't urgent."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Feed:
    """The records of the circuits topic in the order in which they were written, with their times."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.records: list[dict[str, Any]] = []
        self.at: list[float] = []

    def add(self, message: Message, now: float) -> dict[str, Any]:
        """Add a record, and return its fields."""
        record = self.parsed(message)
        self.messages.append(message)
        self.records.append(record)
        self.at.append(now)
        return record

    @staticmethod
    def parsed(message: Message) -> dict[str, Any]:
        """Return a record as plain JSON fields."""
        assert message.value is not None, "the circuit of a tool is never removed"
        return _decode(message.value)


class Network:
    """Carries messages from processes to the broker. Messages of one process arrive in order; those of a dead process are lost."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.lost = 0
        """Events that were lost with their process."""

    def latency_s(self) -> float:
        """Return a one-way delay: a few milliseconds, one in a hundred above 70."""
        return 0.001 + 0.1 * self._simulation.rng.random() ** 16

    def transmit(self, process: SimulatedProcess, tool: str, value: bytes, urgent: bool) -> None:
        """Schedule the arrival of an event."""
        simulation = self._simulation
        linger = 0.0 if urgent else LINGER_S * simulation.rng.random()
        arrives = max(process.sent_until, simulation.agenda.now + linger + self.latency_s())
        process.sent_until = arrives
        simulation.agenda.at(arrives, self._arrive, process, tool, value)

    def _arrive(self, process: SimulatedProcess, tool: str, value: bytes) -> None:
        if not process.alive:
            self.lost += 1
            return
        self._simulation.receive(self._simulation.tool_of[tool], value)
