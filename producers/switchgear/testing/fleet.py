"""A fleet in one process, to test agents with open circuits and without Kafka.

The deciding code is real: guards, breakers, the worker's fold, leases. The log, the network and the clock aren't. An event is
folded, and every client knows the result, before the call that emitted it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import msgspec

from switchgear import arguments
from switchgear.arguments import OptionError
from switchgear.client import Switchgear
from switchgear.emitter.encode import encode_fields
from switchgear.fleet.policy_overrides import sets_glob
from switchgear.fleet.registry import PolicySource
from switchgear.testing.fakes import MemoryEmitter, MemoryFollower
from switchgear.testing.log import MemoryLog
from switchgear.testing.worker import MemoryWorker, create_topics
from switchgear.transport import Wire
from switchgear_schemas import BreakerPolicy, Circuit, Command, ToolExecution, Verb
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.families import DEFAULT_PATTERN, canonical_pattern
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT
from switchgear_schemas.topics import TopicNames

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.base import Follower


START: Final = 1_800_000_000.0
"""15 January 2027, 08:00 UTC."""
_MOST_S: Final = 1e11
"""About 3,000 years. The calendar of Python ends with the year 9999."""


class FakeClock:
    """A monotonic and a wall clock that advance together.

    Args:
        start: The first time of the wall clock, in seconds since 1970.

    Raises:
        SwitchgearError: ``start`` is out of range.
    """

    def __init__(self, start: float = START) -> None:
        arguments.number("start", start, most=_MOST_S)
        self._start = start
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Return the seconds since this clock was made. Replaces :func:`time.monotonic`."""
        return self._elapsed

    def wall(self) -> float:
        """Return the seconds since 1970. Replaces :func:`time.time`."""
        return self._start + self._elapsed

    def now(self) -> datetime:
        """Return the time of the wall clock in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward.

        Raises:
            SwitchgearError: ``seconds`` is negative or out of range. The error is a ValueError too.
        """
        arguments.number("seconds", seconds, most=_MOST_S)
        self._elapsed += seconds


FleetPolicies = BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy] | PolicySource
"""One policy for all tools, policies by tool name (others have the default), a function, or a policy set. Only a policy set has policies
for families, too; the others leave the default in force."""
_PARTITIONS: Final = 4
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class ByTool:
    """Policies with the interface that the worker needs."""

    def __init__(self, policies: FleetPolicies | None) -> None:
        self._policies = FLEET_DEFAULT if policies is None else policies

    def effective(self, tool_name: str) -> BreakerPolicy:
        """Return the policy of a tool."""
        policies = self._policies
        if isinstance(policies, Mapping):
            return policies.get(tool_name, FLEET_DEFAULT)
        if isinstance(policies, BreakerPolicy):
            return policies
        return policies(tool_name) if callable(policies) else policies.effective(tool_name)

    def effective_family(self, family: str) -> BreakerPolicy:
        """Return the policy of a family's circuit."""
        policies = self._policies
        if isinstance(policies, BreakerPolicy | Mapping) or callable(policies):
            return FAMILY_DEFAULT
        return policies.effective_family(family)


class InMemoryFleet:
    """A fleet in memory. Pass it to :class:`~switchgear.Switchgear` in place of the address of the brokers. Thread-safe.

    Args:
        policies: The policies of the fleet's circuits; see :data:`FleetPolicies`.
        clock: The clock of every client, circuit and session. A new :class:`FakeClock` by default.
        family_pattern: Which tools belong to a family, the tools of one server.

    Raises:
        SwitchgearError: An argument is out of range. The message names it.
    """

    def __init__(
        self,
        policies: FleetPolicies | None = None,
        *,
        clock: FakeClock | None = None,
        family_pattern: str = DEFAULT_PATTERN,
    ) -> None:
        arguments.policies("policies", policies)
        if clock is not None and not isinstance(clock, FakeClock):
            arguments.impossible("clock", "a FakeClock", clock)
        self.clock = clock or FakeClock()
        self.names = TopicNames()
        self.log = MemoryLog(self.clock.wall)
        create_topics(self.log, self.names, _PARTITIONS)
        self._family_pattern = canonical_pattern(family_pattern)
        self._worker = MemoryWorker(self.log, ByTool(policies), names=self.names, family_pattern=family_pattern)
        self._worker.assign(range(_PARTITIONS))
        self._running = True
        self._lock = threading.RLock()
        self._settling = False
        self._members: WeakKeyDictionary[Switchgear, tuple[MemoryEmitter, MemoryFollower]] = WeakKeyDictionary()

    def gear(self, service: str = "", **options: Any) -> Switchgear:
        """Return a client of this fleet, as if in its own process.

        Args:
            service: The name of the service.
            options: Arguments of :class:`~switchgear.Switchgear`. ``probe_wait`` is 0 by default, because a request for a probe
                is answered immediately or never.
        """
        options.setdefault("probe_wait", 0.0)
        options.setdefault("family_pattern", self._family_pattern)
        return Switchgear(self, service=service, **options)

    def connect(self, client: Switchgear, *, service: str, buffer_size: int = 65_536) -> Wire:
        """Return the connection of a client. :class:`~switchgear.Switchgear` calls it; see :class:`switchgear.transport.Transport`."""
        follower = MemoryFollower(self.clock.monotonic)
        emitter = MemoryEmitter(self._send, self.clock.wall, service=service, buffer_size=buffer_size)
        emitter.before_close.append(follower.close)
        with self._lock:
            self._members[client] = emitter, follower
            follower.read(self.log, self.names.circuits)
            follower.loaded = True
        return Wire(cast("Emitter", emitter), cast("Follower", follower), self.clock.monotonic, self.clock.wall)

    def cut(self, gear: Switchgear) -> None:
        """Disconnect a client, as if Kafka were down for it: its events wait, and it receives no records.

        Raises:
            SwitchgearError: ``gear`` isn't a client of this fleet.
        """
        for connection in self._connections(gear):
            connection.cut()

    def mend(self, gear: Switchgear) -> None:
        """Connect a client again, unless it is closed.

        Raises:
            SwitchgearError: ``gear`` isn't a client of this fleet.
        """
        emitter, follower = self._connections(gear)
        if not emitter.closed:
            with self._lock:
                follower.read(self.log, self.names.circuits)
            follower.mend()
            emitter.connect()
            self.advance(0)

    def advance(self, seconds: float) -> None:
        """Move the clock of every client, circuit and session of this fleet forward."""
        self.clock.advance(seconds)
        for gear in list(self._members):
            if gear.housekeeping is not None:
                gear.housekeeping.look()
        self.settle()

    def report(
        self, tool: str, status: str = "error", *, times: int = 1, process: str = "other", **fields: Any
    ) -> None:
        """Send the events of calls that another process of the fleet made.

        Args:
            tool: The tool's name.
            status: The status of the calls.
            times: The number of calls.
            process: The emitter id of the process.
            fields: Other fields of a ``ToolExecution``.

        Raises:
            SwitchgearError: A field is unknown, or its value is out of range.
        """
        arguments.whole("times", times)
        for name in fields.keys() - ToolExecution.model_fields.keys():
            raise OptionError(f"A ToolExecution has no field {name}.", hint="Put your own fields into metadata.")
        for _ in range(times):
            found = {"tool_name": tool, "status": status, **fields}
            _, value = encode_fields(found, self.clock.wall(), emitter_id=process, service="")
            self._send(tool, value, True)

    def stop_worker(self) -> None:
        """Stop the worker until :meth:`start_worker`. Events accumulate, and requests for probes get no answer."""
        with self._lock:
            self._running = False
            self._worker.revoke()

    def start_worker(self) -> None:
        """Start a worker, which takes over the circuits and folds the accumulated events."""
        with self._lock:
            self._running = True
            self._worker.assign(range(_PARTITIONS))
            self._deliver()
        self.settle()

    def open_circuit(
        self, tool: str, *, for_s: float | None = None, reason: str = "opened by a test", family: bool = False
    ) -> None:
        """Open the tool's circuit for the whole fleet, as an operator does.

        Args:
            tool: Any name.
            for_s: Seconds until a probe may go. By default the circuit stays open until :meth:`close_circuit`.
            reason: The reason in every refusal.
            family: ``tool`` is a family, such as ``mcp:weather``. Open its circuit.

        Raises:
            SwitchgearError: ``for_s`` isn't a number above 0.
        """
        until = None
        if for_s is not None:
            arguments.number("for_s", for_s, least=0.001)
            until = self.clock.now() + timedelta(seconds=for_s)
        self.command(tool, "force_open", until=until, reason=reason, **_circuit(tool, family=family))

    def close_circuit(self, tool: str, *, reason: str = "closed by a test", family: bool = False) -> None:
        """Close the circuit of a tool, or of a ``family``, for the whole fleet and forget its evidence.

        The local breakers of the clients stay as they are.
        """
        self.command(tool, "reset", reason=reason, **_circuit(tool, family=family))

    def command(self, tool: str, verb: Verb, *, actor: str = "test", reason: str = "", **fields: Any) -> None:
        """Send an operator's command. ``fields`` are other fields of :class:`~switchgear_schemas.Command`.

        Raises:
            InvalidExecutionError: It can't be a command. The error has the field and the reason.
        """
        command = Command.from_dict({"tool_name": tool, "verb": verb, "actor": actor, "reason": reason, **fields})
        number = partition_of(tool, _PARTITIONS, self._family_pattern)
        with self._lock:
            for each in range(_PARTITIONS) if sets_glob(command) else [number]:
                self.log.append(self.names.commands, tool.encode(), command.to_bytes(), partition=each)
        self.settle()

    def circuits(self) -> Mapping[str, Circuit]:
        """Return the newest record of every circuit, by circuit id.

        A circuit that never opened has one only if it says after how long calls are overdue.
        """
        with self._lock:
            found = self.log.compacted(self.names.circuits).values()
        circuits = [Circuit.from_bytes(message.value) for message in found]
        return {circuit.circuit_id: circuit for circuit in circuits}

    def state(self, tool: str) -> str:
        """Return the state of the tool's circuit: ``closed`` if it has no record."""
        found = self.circuits().get(tool)
        return "closed" if found is None else found.state

    def events(self, tool: str | None = None) -> list[dict[str, Any]]:
        """Return the executions in the log as JSON fields, of all tools or of one. Those of one tool are in order."""
        topic = self.names.executions
        with self._lock:
            messages = [message for number in range(_PARTITIONS) for message in self.log.read(topic, number, 0)]
        events = [_decode(message.value) for message in messages if message.value is not None]
        return [event for event in events if tool in {None, event["tool_name"]}]

    def settle(self) -> None:
        """Fold all events and deliver the records to every client. Called automatically after every event and command."""
        with self._lock:
            if self._settling:
                return  # a listener emitted an event: the outer call folds it
            self._settling = True
            try:
                while self._running and self._worker.step():
                    self._deliver()
            finally:
                self._settling = False

    def _send(self, tool: str, value: bytes, urgent: bool) -> None:  # noqa: ARG002 - events never linger here
        number = partition_of(tool, _PARTITIONS, self._family_pattern)
        with self._lock:
            self.log.append(self.names.executions, tool.encode(), value, partition=number)
        self.settle()

    def _deliver(self) -> None:
        for _, follower in list(self._members.values()):
            if follower.connected:
                follower.read(self.log, self.names.circuits)

    def _connections(self, gear: Switchgear) -> tuple[MemoryEmitter, MemoryFollower]:
        if gear not in self._members:
            hint = "Make it with fleet.gear(...) or Switchgear(fleet)."
            arguments.impossible("gear", "a client of this fleet", gear, hint)
        return self._members[gear]


def _circuit(name: str, *, family: bool) -> dict[str, str]:
    return {"circuit_id": circuit_id(name, "family")} if family else {}
