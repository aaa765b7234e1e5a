"""InMemoryFleet: a fleet in one process, so that an agent can be tested with open circuits and without Kafka.

    fleet = InMemoryFleet()
    gear = Switchgear(fleet, service="planner")     # or fleet.gear("planner")
    fleet.open_circuit("mcp:weather:get_forecast")

Everything that decides is the real code: guards, breakers, the worker's fold, leases. The log, the network and the clock are not:
an event is folded, and what comes of it known to every client, before the call that emitted it returns; time moves by :meth:`advance`.
"""

from __future__ import annotations

import difflib
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear import arguments
from switchgear.client import Switchgear
from switchgear.emitter.encode import encode_fields
from switchgear.guard.options import OptionError
from switchgear.testing.clock import FakeClock
from switchgear.testing.fakes import MemoryEmitter, MemoryFollower
from switchgear.testing.log import MemoryLog
from switchgear.testing.worker import LATE_AFTER_S, MemoryWorker, create_topics, newest_circuits
from switchgear.transport import Wire
from switchgear_schemas import BreakerPolicy, Circuit, Command, ToolExecution, Verb
from switchgear_schemas.policy import FLEET_DEFAULT
from switchgear_schemas.topics import TopicNames

if TYPE_CHECKING:
    from switchgear.client import Switchgear


FleetPolicies = BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy]
"""One policy for all tools, or by tool name (the rest have the fleet's default), or a function such as ``PolicySet.effective``."""
_PARTITIONS: Final = 4
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class ByTool:
    """Policies as the worker asks for them."""

    def __init__(self, policies: FleetPolicies | None) -> None:
        self._policies = policies

    def effective(self, tool_name: str) -> BreakerPolicy:
        """The policy in force for a tool."""
        found = self._policies
        if found is None:
            return FLEET_DEFAULT
        if isinstance(found, Mapping):
            return found.get(tool_name, FLEET_DEFAULT)
        policy = found if isinstance(found, BreakerPolicy) else found(tool_name)
        if not isinstance(policy, BreakerPolicy):
            arguments.impossible(f"What policies returns for {tool_name!r}", "a BreakerPolicy", policy)
        return policy


class InMemoryFleet:
    """Thread-safe. Give it to :class:`~switchgear.Switchgear` where the address of the brokers would be.

    Args:
        policies: of the fleet's circuits; see :data:`FleetPolicies`.
        clock: the time of everything; a fresh :class:`FakeClock` unless given.
        topic_prefix: before every topic name.

    Raises:
        SwitchgearError: an argument is impossible; the message names it.
    """

    def __init__(
        self,
        policies: FleetPolicies | None = None,
        *,
        clock: FakeClock | None = None,
        topic_prefix: str = "switchgear.",
    ) -> None:
        arguments.policies("policies", policies)
        arguments.beginning("topic_prefix", topic_prefix)
        if clock is not None and not isinstance(clock, FakeClock):
            arguments.impossible("clock", "a FakeClock", clock)
        self.clock = clock or FakeClock()
        self.names = TopicNames(prefix=topic_prefix)
        self.log = MemoryLog(self.clock.wall)
        create_topics(self.log, self.names, _PARTITIONS)
        self._worker = MemoryWorker(self.log, ByTool(policies), names=self.names, late_after_s=LATE_AFTER_S)
        self._worker.assign(range(_PARTITIONS))
        self._running = True
        self._lock = threading.RLock()
        self._settling = False
        self._clients: list[tuple[weakref.ref[Switchgear], MemoryEmitter, MemoryFollower]] = []
        self._read: weakref.WeakKeyDictionary[MemoryFollower, dict[int, int]] = weakref.WeakKeyDictionary()

    # -- clients ------------------------------------------------------------------------------------------------------

    def gear(self, service: str = "", **options: Any) -> Switchgear:
        """A client of this fleet, as if in a process of its own; ``options`` are :class:`~switchgear.Switchgear`'s.

        ``probe_wait`` is 0 unless given: here a request for a probe is answered before it returns, or not at all.
        """
        options.setdefault("probe_wait", 0.0)
        from switchgear.client import Switchgear  # noqa: PLC0415 - the client is above its transport

        return Switchgear(self, service=service, **options)

    def connect(self, client: Switchgear, *, service: str, buffer_size: int = 65_536) -> Wire:
        """For :class:`~switchgear.Switchgear`: see :class:`switchgear.transport.Transport`."""
        follower = MemoryFollower(self.clock.monotonic, topic_prefix=self.names.prefix)
        emitter = MemoryEmitter(self._send, self.clock.wall, service=service, buffer_size=buffer_size)
        emitter.before_close.append(follower.end)
        with self._lock:
            self._clients.append((weakref.ref(client), emitter, follower))
            self._read[follower] = {}
            self._deliver(follower)
            follower.loaded = True
        return Wire(emitter, follower, self.clock.monotonic, self.clock.wall)

    def cut(self, gear: Switchgear) -> None:
        """Kafka is away for this client: its events wait, and it hears of nothing.

        Raises:
            SwitchgearError: it is no client of this fleet.
        """
        for emitter, follower in self._of(gear):
            emitter.cut()
            follower.cut()

    def mend(self, gear: Switchgear) -> None:
        """Kafka is back for this client; for one that was closed it is not.

        Raises:
            SwitchgearError: it is no client of this fleet.
        """
        for emitter, follower in self._of(gear):
            if follower.ended:
                continue
            with self._lock:
                self._deliver(follower)
            follower.mend()
            emitter.connect()
        _look(gear)
        self.settle()

    # -- time ---------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass, for every client, circuit and session of this fleet."""
        self.clock.advance(seconds)
        with self._lock:
            self._clients = [client for client in self._clients if client[0]() is not None]
            gears = [gear for found, _, _ in self._clients if (gear := found()) is not None]
        for gear in gears:
            _look(gear)
        self.settle()

    # -- the rest of the fleet ----------------------------------------------------------------------------------------

    def report(
        self, tool: str, status: str = "error", *, times: int = 1, process: str = "other", **fields: Any
    ) -> None:
        """Calls that another process of the fleet made, as its events; ``fields`` are those of a ``ToolExecution``.

        Raises:
            SwitchgearError: there is no such field, or its value is impossible.
        """
        arguments.whole("times", times)
        for name in fields:
            if name not in ToolExecution.model_fields:
                near = difflib.get_close_matches(name, ToolExecution.model_fields, n=1)
                hint = f"Did you mean {near[0]}?" if near else "What is your own goes into metadata."
                raise OptionError(f"A ToolExecution has no field {name}.", hint=hint)
        for _ in range(times):
            found = {"tool_name": tool, "status": status, **fields}
            _, value = encode_fields(found, self.clock.wall(), emitter_id=process, service="")
            self._send(tool, value, True)

    def stop_worker(self) -> None:
        """Nobody owns the circuits until :meth:`start_worker`: events pile up, requests for probes go unanswered."""
        with self._lock:
            self._running = False
            self._worker.revoke()

    def start_worker(self) -> None:
        """A worker takes the circuits over and folds what piled up."""
        with self._lock:
            self._running = True
            self._worker.assign(range(_PARTITIONS))
            self._tell()
        self.settle()

    # -- operators ----------------------------------------------------------------------------------------------------

    def open_circuit(self, tool: str, *, for_s: float | None = None, reason: str = "opened by a test") -> None:
        """Open the tool's circuit for all, as an operator does.

        Args:
            tool: any name.
            for_s: seconds until a probe may go; unless given it stays open until :meth:`close_circuit`.
            reason: told with every refusal.

        Raises:
            SwitchgearError: ``for_s`` is no number above 0: the circuit would not be open at all.
        """
        until = None
        if for_s is not None:
            arguments.number("for_s", for_s, least=0.001)
            try:
                until = datetime.fromtimestamp(self.clock.wall() + for_s, UTC)
            except (ValueError, OverflowError, OSError):
                arguments.impossible("for_s", "a number of seconds until some year before 10000", for_s)
        self.command(tool, "force_open", until=until, reason=reason)

    def close_circuit(self, tool: str, *, reason: str = "closed by a test") -> None:
        """Close the tool's circuit for all and forget its evidence. A process's own breaker keeps its own."""
        self.command(tool, "reset", reason=reason)

    def command(self, tool: str, verb: Verb, *, actor: str = "test", reason: str = "", **fields: Any) -> None:
        """Any operator's command; ``fields`` are those of :class:`~switchgear_schemas.Command`."""
        command = Command(tool_name=tool, verb=verb, actor=actor, reason=reason, **fields)
        with self._lock:
            self.log.append(self.names.commands, tool.encode(), command.model_dump_json().encode())
        self.settle()

    # -- looking ------------------------------------------------------------------------------------------------------

    def circuits(self) -> Mapping[str, Circuit]:
        """The newest record of every circuit, by circuit id. A circuit that never opened has none."""
        with self._lock:
            return newest_circuits(self.log, self.names)

    def state(self, tool: str) -> str:
        """The state of the tool's circuit, ``closed`` where it was never told of."""
        found = self.circuits().get(tool)
        return "closed" if found is None else found.state

    def events(self, tool: str | None = None) -> list[dict[str, Any]]:
        """Every execution in the log, as its JSON fields; of one tool they are in order."""
        with self._lock:
            values = [
                message.value
                for number in range(_PARTITIONS)
                for message in self.log.read(self.names.executions, number, 0)
                if message.value is not None
            ]
        return [event for value in values if (event := _decode(value)) and tool in {None, event.get("tool_name")}]

    def settle(self) -> None:
        """Fold everything and tell everybody; done by itself after every event and command."""
        with self._lock:
            if self._settling:
                return  # a listener emitted: the outer call goes on with it
            self._settling = True
            try:
                while self._running and self._worker.step():
                    self._tell()
            finally:
                self._settling = False

    # -- inside -------------------------------------------------------------------------------------------------------

    def _send(self, tool: str, value: bytes, urgent: bool) -> None:  # noqa: ARG002 - nothing lingers here
        with self._lock:
            self.log.append(self.names.executions, tool.encode(), value)
        self.settle()

    def _tell(self) -> None:
        for _, _, follower in list(self._clients):
            if follower.connected:
                self._deliver(follower)

    def _deliver(self, follower: MemoryFollower) -> None:
        read = self._read[follower]
        for number in range(_PARTITIONS):
            found = self.log.read(self.names.circuits, number, read.get(number, 0))
            if found:
                read[number] = found[-1].offset + 1
                follower.deliver(found)

    def _of(self, gear: Switchgear) -> list[tuple[MemoryEmitter, MemoryFollower]]:
        with self._lock:
            parts = [(emitter, follower) for found, emitter, follower in self._clients if found() is gear]
        if not parts:
            arguments.impossible(
                "gear", "a client of this fleet", gear, "Make it by fleet.gear(...) or Switchgear(fleet)."
            )
        return parts


def _look(gear: Switchgear) -> None:
    """What the background of a client does once a second."""
    watch = gear._watch  # noqa: SLF001 - of the library
    if watch is not None:
        watch.look()


def memory_gear(
    service: str = "", *, policies: FleetPolicies | None = None, **options: Any
) -> tuple[Switchgear, InMemoryFleet]:
    """A client and the fleet it is the only member of.

    Args:
        service: name of the service.
        policies: of the fleet's circuits.
        options: :class:`~switchgear.Switchgear`'s.
    """
    fleet = InMemoryFleet(policies)
    return fleet.gear(service, **options), fleet
