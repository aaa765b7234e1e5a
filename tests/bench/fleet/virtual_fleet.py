"""Switchgear in virtual time: the guards, the followers and the worker are real, the log and the network are the simulator's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from switchgear.fleet import Message
from switchgear.guard.attempts import PendingProbe
from switchgear.guard.rejections import Caller
from switchgear.testing.fleet import ByTool
from switchgear.testing.worker import create_topics
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.topics import TopicNames
from tests.bench.fleet.world import World
from tests.simulator.network import Feed, Network
from tests.simulator.process import SimulatedProcess
from tests.simulator.scenario import PROBE_WAIT_S, Scenario
from tests.simulator.simulation import WatchedLog
from tests.simulator.workers import Workers

SCENARIO: Final = Scenario()
"""For the sizes of the log and the group of workers, and the skew of clocks."""


class _Tool:
    """What the network and the log need of a tool."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partition = partition_of(name, SCENARIO.partitions)


class _Tools(dict[str, _Tool]):
    def __missing__(self, name: str) -> _Tool:
        return self.setdefault(name, _Tool(name))


class VirtualFleet:
    """What the processes of one trial share. It has the parts of a :class:`tests.simulator.simulation.Simulation` that they use."""

    def __init__(self, world: World, policy: BreakerPolicy) -> None:
        self.scenario = SCENARIO
        self.world = world
        self.agenda = world.agenda
        self.rng = Random(world.rng.random())
        self.names = TopicNames(prefix="sim.")
        self.policies = ByTool(lambda _tool: policy)
        self.tool_of = _Tools()
        self.feed = Feed()
        self.network = Network(self)
        self.log = WatchedLog(self)
        create_topics(self.log, self.names, SCENARIO.partitions)
        self._minted = 0
        self._waiting: list[SimulatedProcess] = []
        self.workers = Workers(self)

    def join(self, number: int, policy: BreakerPolicy) -> Callable[..., Any]:
        """Start a process, and return its function that decides about a call. It waits for the answer to a probe."""
        process = SimulatedProcess(self, number, 0, local_policies=policy, classifier=None)

        salted = process.decision.reporter.credentials.salted

        def acquire(tool: str, *, credential: str) -> Any:
            process.catch_up()
            answer = process.decision.acquire(tool, Caller(credential=salted(credential)))
            if not isinstance(answer, PendingProbe):
                return answer
            self._waiting.append(process)
            self.world.wait(PROBE_WAIT_S, lambda wake: answer.answer.add_done_callback(lambda _: wake()))
            self._waiting.remove(process)
            return process.decision.after_answer(answer)

        return acquire

    def mint(self) -> str:
        """Return an id of a call: a number in the form of a UUID."""
        self._minted += 1
        text = f"{self._minted:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def receive(self, tool: _Tool, value: bytes) -> None:
        """Append an execution that has reached the broker."""
        self.log.append(self.names.executions, tool.name.encode(), value, partition=tool.partition)

    def appended(self, message: Message) -> None:
        """Wake the worker, and the processes that wait for a probe."""
        if message.topic == self.names.circuits:
            self.feed.add(message, self.agenda.now)
            for process in self._waiting:
                self.agenda.at(process.visible_at(len(self.feed.messages) - 1), process.catch_up)
        elif message.topic in {self.names.executions, self.names.commands}:
            self.workers.notice(message.partition)
