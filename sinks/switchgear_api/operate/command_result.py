"""The result of an operator command, and how it is confirmed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.command import Command
from switchgear_schemas.explain import explain
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings
from switchgear_schemas.unreadable import guard
from switchgear_schemas.visible import name as named
from switchgear_schemas.visible import sentence as plain

CommandOutcome = Literal["applied", "unchanged", "sent", "refused", "unconfirmed"]

STATES = {
    "force_open": ("forced_open", "open"),
    "close": ("closed",),
    "reset": ("closed",),
    "disable": ("disabled",),
    "metrics_only": ("metrics_only",),
}
"""The states that show a command. Any state shows ``auto`` and ``set_policy``."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What became of a command.

    Attributes:
        command: The command.
        outcome: ``sent`` is a success if the caller didn't wait.
        circuit: The record that shows the command. If nothing changed, the newest record, or None if there is none.
        reason: Why it was refused or not confirmed, or what else there is to say.
    """

    command: Command
    outcome: CommandOutcome
    circuit: Circuit | None = None
    reason: str = ""

    @property
    def done(self) -> bool:
        """The command is in force, or the caller didn't wait for that."""
        return self.outcome in {"applied", "unchanged", "sent"}

    def sentence(self) -> str:
        """Return one sentence for a person."""
        name, reason = named(self.command.circuit_id or self.command.tool_name), plain(self.reason)
        if self.outcome == "sent":
            return f"{name}: sent, not waited for."
        if self.outcome in {"refused", "unconfirmed"}:
            return f"{name}: {reason}"
        if self.command.policy is not None:
            return f"{name}: {self._policy(self.command.policy)}{f' ({reason})' if reason else ''}."
        if self.outcome == "unchanged" and self.reason:
            return f"{name}: nothing changed ({reason})."
        if self.outcome == "unchanged":
            return f"{name}: {_state(self.circuit)} already{_evidence(self.circuit)}; nothing changed."
        return f"{name}: {_state(self.circuit)}{_why(self.circuit)}."

    def _policy(self, policy: BreakerPolicy) -> str:
        unchanged = self.outcome == "unchanged"
        if not policy.model_fields_set:
            return "nothing was set; nothing changed" if unchanged else "what was set is taken back"
        return "these values are set already; nothing changed" if unchanged else "the policy is set"

    def document(self) -> dict[str, Any]:
        """Return the JSON object for a program."""
        return {
            "command_id": str(self.command.command_id),
            "tool_name": self.command.tool_name,
            "verb": self.command.verb,
            "outcome": self.outcome,
            "reason": self.reason,
            "circuit": None if self.circuit is None else self.circuit.to_dict(),
        }


def shows(circuit: Circuit, command: Command) -> bool:
    """Return whether the record came of this command, or of one that says the same."""
    cause = circuit.cause
    if cause is None or cause.actor != command.actor or (cause.reason or "") != command.reason:
        return False
    if command.verb == "set_policy":
        return cause.rule == "set_policy"
    return cause.rule == "command" and circuit.state in STATES.get(command.verb, (circuit.state,))


def _state(circuit: Circuit | None) -> str:
    if circuit is None:
        return "closed"
    until = circuit.open_until if circuit.state == "open" else circuit.stands_until
    words = circuit.state.replace("_", " ")
    return f"{words} until {until:%Y-%m-%d %H:%M:%S} UTC" if until is not None else words


def _evidence(circuit: Circuit | None) -> str:
    """Return why it is in its state, or nothing if an operator commanded it."""
    if circuit is None or circuit.cause is None or circuit.cause.actor:
        return ""
    return f": {plain(explain(circuit.cause, circuit.counts, state=circuit.state))}"


def _why(circuit: Circuit | None) -> str:
    cause = None if circuit is None else circuit.cause
    if circuit is None or cause is None:
        return ""
    reason = f": {plain(cause.reason)}" if cause.reason else ""
    return f", version {circuit.version}, by {plain(cause.actor or '')}{reason}"


_POLL_MS: Final = 100
_ASK_S: Final = 0.3
"""Seconds between two reads of the workers' committed offsets. Workers commit twice a second."""
_EXPLAIN_S: Final = 3.0
_SETTLE_S: Final = 10.0
"""Seconds to read what is in the topics, after the workers have committed past a command."""


class Sent(NamedTuple):
    """A command and its copies: partition of the commands topic to offset."""

    command: Command
    places: Mapping[int, int]


class Confirmation:
    """Follows the circuits of the commands' partitions, and the dead letters, from :meth:`start` on.

    A command that changes something writes a circuit record of its own. If it changes nothing, the workers' committed offset shows
    that they applied it: a worker writes records before it commits the offset.
    """

    def __init__(self, settings: Settings, commands: Sequence[Command]) -> None:
        self._settings = settings
        self._commands = {_circuit_id(command): command for command in commands}
        self._circuits: list[TopicPartition] = []
        self._consumer = AIOKafkaConsumer(**settings.kafka.options(), group_id=None, enable_auto_commit=False)
        self._admin = AIOKafkaAdminClient(**settings.kafka.options())
        self._found: dict[str, Circuit] = {}
        self._letters: dict[str, DeadLetter] = {}

    async def start(self, partitions: int) -> None:
        """Go to the present end of both topics. Call it before the commands are sent.

        Args:
            partitions: Number of partitions of the commands topic. The circuits topic has the same.
        """
        topics = self._settings.topics
        pattern = self._settings.family_pattern
        owners = {partition_of(command.tool_name, partitions, pattern) for command in self._commands.values()}
        self._circuits = [TopicPartition(topics.circuits, owner) for owner in sorted(owners)]
        await self._consumer.start()
        guard(self._consumer)
        await self._admin.start()
        numbers = sorted(self._consumer.partitions_for_topic(topics.dead) or await self._learn(topics.dead))
        self._consumer.assign([*self._circuits, *(TopicPartition(topics.dead, number) for number in numbers)])
        await self._consumer.seek_to_end()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._admin.close()

    async def wait(self, sent: Sequence[Sent], timeout_s: float) -> list[CommandResult]:
        """Wait for all of them, together at most ``timeout_s`` seconds. The results are in the order of ``sent``."""
        deadline = time.monotonic() + timeout_s
        look_at = time.monotonic() + _ASK_S
        given: dict[str, CommandResult] = {}
        waiting = {_circuit_id(one.command): one for one in sent}
        while waiting and time.monotonic() < deadline:
            await self._read()
            given |= self._seen(waiting, settled=False)
            if time.monotonic() >= look_at:
                passed = await self._passed(waiting)
                if passed and await self._read_to_end():
                    given |= self._seen(passed, settled=True)
                look_at = time.monotonic() + _ASK_S
            waiting = {circuit_id: one for circuit_id, one in waiting.items() if circuit_id not in given}
        if waiting:
            why = await self._explain(timeout_s)
            given |= {key: CommandResult(one.command, "unconfirmed", reason=why) for key, one in waiting.items()}
        await self._show_unchanged(given)
        return [given[_circuit_id(one.command)] for one in sent]

    def _seen(self, sent: Mapping[str, Sent], *, settled: bool) -> dict[str, CommandResult]:
        """Return what is known of each.

        ``settled``: the workers applied them, and every record up to then was read.
        """
        found: dict[str, CommandResult] = {}
        for circuit_id, (command, places) in sent.items():
            refused = self._refused(places)
            circuit = self._found.get(circuit_id)
            if refused is not None:
                found[circuit_id] = CommandResult(
                    command, "refused", reason=f"the worker refused it: {refused.reason}."
                )
            elif circuit is not None and len(places) == 1:
                found[circuit_id] = CommandResult(command, "applied", circuit)
            elif settled and len(places) > 1:
                by_all = f"by the owners of all {len(places)} partitions"
                found[circuit_id] = CommandResult(command, "applied", reason=by_all)
            elif settled:
                found[circuit_id] = CommandResult(command, "unchanged")
        return found

    async def _read(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in records:
                self._take(record)

    def _take(self, record: Any) -> None:
        if record.topic == self._settings.topics.dead:
            with contextlib.suppress(KeyError, ValueError):  # the tombstone of a retried letter, or a foreign record
                letter = DeadLetter.from_record(record.value, record.headers)
                self._letters[letter.key.decode()] = letter
            return
        circuit = self._decode(record)
        if circuit is not None and shows(circuit, self._commands[circuit.circuit_id]):
            self._found[circuit.circuit_id] = circuit

    def _decode(self, record: Any) -> Circuit | None:
        if not record.value or (record.key or b"").decode(errors="replace") not in self._commands:
            return None
        try:
            circuit = Circuit.from_bytes(record.value)
        except InvalidExecutionError:  # a record of a newer worker or a foreign producer shows nothing
            return None
        return circuit if circuit.circuit_id in self._commands else None

    def _refused(self, places: Mapping[int, int]) -> DeadLetter | None:
        commands = self._settings.topics.commands
        keys = (f"{commands}-{partition}-{offset}" for partition, offset in places.items())
        return next((self._letters[key] for key in keys if key in self._letters), None)

    async def _passed(self, waiting: Mapping[str, Sent]) -> dict[str, Sent]:
        """Return those that the workers have committed past."""
        try:
            found = await self._admin.list_consumer_group_offsets(self._settings.topics.worker_group)
        except KafkaError:  # the broker is away or moves its groups; the loop asks again until the deadline
            return {}
        commands = self._settings.topics.commands
        known = {tp.partition: entry.offset for tp, entry in found.items() if tp.topic == commands}

        def passed(one: Sent) -> bool:
            return all(known.get(partition, -1) > offset for partition, offset in one.places.items())

        return {circuit_id: one for circuit_id, one in waiting.items() if passed(one)}

    async def _read_to_end(self) -> bool:
        """Read everything that is in the topics now. Return False if that took too long."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                ends = await self._consumer.end_offsets(self._consumer.assignment())
                while any([await self._consumer.position(place) < end for place, end in ends.items()]):
                    await self._read()
        except TimeoutError:
            return False
        return True

    async def _show_unchanged(self, given: dict[str, CommandResult]) -> None:
        """Add the newest record of each circuit that did not change, read from the beginning of its partition."""
        unchanged = {circuit_id for circuit_id, one in given.items() if one.outcome == "unchanged"}
        if not unchanged:
            return
        newest: dict[str, Circuit] = {}
        reason = ""
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self._read_newest(unchanged, newest)
        except TimeoutError:
            newest, reason = {}, "its newest record was not read in time"
        for circuit_id in unchanged:
            given[circuit_id] = replace(given[circuit_id], circuit=newest.get(circuit_id), reason=reason)

    async def _read_newest(self, wanted: set[str], newest: dict[str, Circuit]) -> None:
        self._consumer.assign(self._circuits)
        await self._consumer.seek_to_beginning(*self._circuits)
        ends = await self._consumer.end_offsets(self._circuits)
        while any([await self._consumer.position(place) < end for place, end in ends.items()]):
            for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
                for circuit in filter(None, map(self._decode, records)):
                    known = newest.get(circuit.circuit_id)
                    if circuit.circuit_id in wanted and (known is None or circuit.version >= known.version):
                        newest[circuit.circuit_id] = circuit

    async def _learn(self, topic: str) -> set[int]:
        """Return the partitions of a topic that this client has not used yet."""
        description = await self._admin.describe_topics([topic])
        return {entry["partition"] for entry in description[0]["partitions"]}

    async def _explain(self, timeout_s: float) -> str:
        group = self._settings.topics.worker_group
        later = "It is in the log, and applied as soon as one reads it."
        try:
            async with asyncio.timeout(_EXPLAIN_S):
                (answer,) = await self._admin.describe_consumer_groups([group])
                members = answer.groups[0][-2 if answer.API_VERSION >= 3 else -1]
        except Exception as error:  # noqa: BLE001 - the command was sent; the reason why it is not confirmed is extra
            return f"not confirmed within {timeout_s:g} s ({type(error).__name__} asking for the workers). {later}"
        if not members:
            return f"not confirmed: no worker runs (the group {group} has no members). {later}"
        return f"not confirmed within {timeout_s:g} s, though {len(members)} worker(s) run: see their lag. {later}"


def _circuit_id(command: Command) -> str:
    return command.circuit_id or command.tool_name
