"""The simulated fleet, its calls and its log, in virtual time. The invariants are checked at every step."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import Any, Final

import msgspec

from switchgear.fleet import Message
from switchgear.testing.fleet import ByTool
from switchgear.testing.log import MemoryLog
from switchgear.testing.worker import create_topics
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.topics import TopicNames
from tests.simulator.agenda import Agenda
from tests.simulator.calls import Calls
from tests.simulator.faults import Faults
from tests.simulator.invariants.audit import Audit
from tests.simulator.network import Feed, Network
from tests.simulator.process import SimulatedProcess
from tests.simulator.scenario import Scenario
from tests.simulator.tools import SimulatedServer, SimulatedTool, make_tools
from tests.simulator.workers import Workers

REST_S: Final = 150.0
"""Time after the last call and fault. In it calls end, leases expire, failovers finish and messages arrive."""
CHECKPOINT_S: Final = 600.0
"""Time between two comparisons of the workers' rows with a rebuild from the log. The compared part of the log is then dropped."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


_DIRTY: Final = 2_000
"""Superfluous records after which a partition of a compacted topic is compacted."""


class WatchedLog(MemoryLog):
    """A log that passes every record to the simulation, with compaction and retention."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.agenda.wall)
        self._simulation = simulation
        self._compact_at: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def append(self, topic: str, key: bytes | None, value: bytes | None, **options: Any) -> Message:
        """Append a record, and pass it to the simulation."""
        message = super().append(topic, key, value, **options)
        self._ends[topic, message.partition] = message.offset + 1
        if topic in {self._simulation.names.circuits, self._simulation.names.changelog}:
            self._compact(topic, message.partition)
        self._simulation.appended(message)
        return message

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record, also when no record is left."""
        return self._ends.get((topic, partition), 0)

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records below ``offset``, as retention does. The others keep their offsets."""
        records = self.records(topic, partition)
        records[:] = [message for message in records if message.offset >= offset]

    def _compact(self, topic: str, partition: int) -> None:
        """Keep the newest record of each key, when there are many others."""
        records = self.records(topic, partition)
        if len(records) >= self._compact_at.get((topic, partition), _DIRTY):
            newest = {message.key: message.offset for message in records}
            records[:] = [message for message in records if newest[message.key] == message.offset]
            self._compact_at[topic, partition] = 2 * len(records) + _DIRTY


class _Policies(ByTool):
    def effective_family(self, family: str) -> BreakerPolicy:
        return self.effective(family)


class Simulation:
    """One run of a scenario.

    Args:
        scenario: What to simulate.

    Raises:
        InvariantBrokenError: :meth:`run` raises it at the first step that breaks an invariant.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rng = Random(scenario.seed)
        self.agenda = Agenda()
        self.names = TopicNames(prefix="sim.")
        self.stale_writes = False
        """Whether a replaced worker is writing its last changes."""
        self._minted = 0
        self._trace = blake2b(digest_size=16)
        self.steps = 0
        self.tools = make_tools(scenario, self.rng)
        self.servers = list(dict.fromkeys(tool.server for tool in self.tools if tool.server is not None))
        self.tool_of: dict[str, SimulatedTool] = {tool.name: tool for tool in self.tools}
        self.by_name: dict[str, SimulatedTool | SimulatedServer] = {
            each.name: each for each in (*self.tools, *self.servers)
        }
        """What each circuit is of, by the ``tool_name`` of its record: a tool, or a server by its family."""
        self.policies = _Policies(lambda name: self.by_name[name].policy)
        self.feed = Feed()
        self.network = Network(self)
        self.audit = Audit(self)
        self.log = WatchedLog(self)
        create_topics(self.log, self.names, scenario.partitions)
        self.workers = Workers(self)
        self.processes: list[SimulatedProcess] = []
        self._lives = [0] * scenario.processes
        for number in range(scenario.processes):
            self.processes.append(SimulatedProcess(self, number, 0))
        self.calls = Calls(self)
        self.faults = Faults(self)

    def run(self) -> Simulation:
        """Run the scenario, and then until nothing moves any more."""
        end = self.scenario.length_s
        at = CHECKPOINT_S
        while at < end:
            self.steps += self.agenda.run(at)
            self.audit.checkpoint()
            at += CHECKPOINT_S
        self.steps += self.agenda.run(end)
        for process in self.processes:
            self.faults.hear(process)
            self.faults.speak(process)
        self.agenda.after(15.0, self.workers.mend)
        self.steps += self.agenda.run(end + REST_S)
        for process in self.processes:
            process.catch_up()
        self.audit.finish()
        return self

    def mint(self) -> str:
        """Return an identifier: a number in the form of a UUID."""
        self._minted += 1
        text = f"{self._minted:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def start_process(self, number: int) -> None:
        """Start a new process in the place of a dead one."""
        self.audit.started()
        self._lives[number] += 1
        self.processes[number] = SimulatedProcess(self, number, self._lives[number])

    def receive(self, tool: SimulatedTool, value: bytes) -> None:
        """Append an execution that has reached the broker."""
        self.log.append(self.names.executions, tool.name.encode(), value, partition=tool.partition)

    def appended(self, message: Message) -> None:
        """Pass a record of the log to the digest, the invariants, the calls and the workers."""
        place = f"{message.topic}:{message.partition}:{message.offset}:{message.timestamp}:"
        self._trace.update(place.encode() + (message.value or b""))
        if message.topic == self.names.circuits:
            record = self.feed.add(message, self.agenda.now)
            self.audit.published(record, message)
            self.calls.wake(record["circuit_id"], len(self.feed.messages) - 1)
        elif message.topic == self.names.executions:
            assert message.value is not None
            self.audit.executed(_decode(message.value), message)
            self.workers.notice(message.partition)
        elif message.topic == self.names.commands:
            assert message.value is not None
            self.audit.commanded(_decode(message.value), message)
            self.workers.notice(message.partition)
        elif message.topic == self.names.changelog:
            self.audit.rebuild.row_written(message)
        elif message.topic == self.names.dead:
            self.audit.dead_letters += 1

    def trace(self, *facts: object) -> None:
        """Add a decision to the digest."""
        self._trace.update(repr((self.agenda.now, *facts)).encode())

    def digest(self) -> str:
        """Return a hash of the log and of every decision. Two runs of one seed have the same."""
        return self._trace.hexdigest()
