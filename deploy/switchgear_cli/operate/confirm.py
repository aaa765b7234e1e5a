"""Confirm: wait, with a limit, until the fleet shows that a command was applied, or why it was not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from pydantic import ValidationError

from switchgear_cli.operate.given import Given, shows
from switchgear_schemas import Circuit, Command, DeadLetter
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings

_POLL_MS: Final = 100
_ASK_S: Final = 0.3
"""Between two looks at what the workers have committed: they commit twice a second."""
_EXPLAIN_S: Final = 3.0


class Confirmation:
    """Follows the circuits of one tool's partition, and the dead letters, from the moment it was started.

    A command shows in a record of its own where it changed anything. Where it did not, the workers' committed offset past it says
    that it was applied: records are on the broker before the offset is.
    """

    def __init__(self, settings: Settings, command: Command) -> None:
        self._settings = settings
        self._command = command
        self._circuit_id = command.circuit_id or command.tool_name
        self._circuits = TopicPartition(settings.topics.circuits, 0)
        self._consumer = AIOKafkaConsumer(**settings.kafka.options(), group_id=None, enable_auto_commit=False)
        self._admin = AIOKafkaAdminClient(**settings.kafka.options())
        self._found: Circuit | None = None
        self._letters: dict[str, DeadLetter] = {}

    async def start(self, partitions: int) -> None:
        """Stand at the present end of both topics; call before the command is sent.

        Args:
            partitions: of the commands topic, as the broker has it: the owner's number is the same in the circuits topic.
        """
        owner = owner_partition(self._command.tool_name, partitions)
        self._circuits = TopicPartition(self._circuits.topic, owner)
        await self._consumer.start()
        await self._admin.start()
        dead = self._settings.topics.dead
        numbers = sorted(self._consumer.partitions_for_topic(dead) or await self._learn(dead))
        self._consumer.assign([self._circuits, *(TopicPartition(dead, number) for number in numbers)])
        await self._consumer.seek_to_end()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._admin.close()

    async def wait(self, places: Mapping[int, int], timeout_s: float) -> Given:
        """Wait for the command at ``places`` (partition of the commands topic to offset)."""
        command, deadline = self._command, time.monotonic() + timeout_s
        look_at = time.monotonic() + _ASK_S
        while time.monotonic() < deadline:
            await self._read()
            refused = self._refused(places)
            if refused is not None:
                return Given(command, "refused", reason=f"the worker refused it: {refused.reason}.")
            if self._found is not None and len(places) == 1:
                return Given(command, "applied", self._found)
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _ASK_S
                if await self._committed(places):
                    return await self._settled(places)
        return Given(command, "unconfirmed", reason=await self._explain(timeout_s))

    async def _settled(self, places: Mapping[int, int]) -> Given:
        """Applied for certain: what it changed is in the topics by now."""
        await self._read_to_end()
        refused = self._refused(places)
        if refused is not None:
            return Given(self._command, "refused", reason=f"the worker refused it: {refused.reason}.")
        if len(places) > 1:
            return Given(self._command, "applied", reason=f"by the owners of all {len(places)} partitions")
        if self._found is not None:
            return Given(self._command, "applied", self._found)
        return Given(self._command, "unchanged", await self._newest())

    async def _read(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in records:
                self._take(record)

    def _take(self, record: Any) -> None:
        if record.topic != self._circuits.topic:
            self._letters[(record.key or b"").decode(errors="replace")] = DeadLetter.from_record(
                record.value, record.headers
            )
            return
        circuit = self._decode(record)
        if circuit is not None and shows(circuit, self._command):
            self._found = circuit

    def _decode(self, record: Any) -> Circuit | None:
        if not record.value or record.key != self._circuit_id.encode():
            return None
        try:
            return Circuit.model_validate_json(record.value)
        except ValidationError:  # of a newer worker, or a stranger's: it shows nothing to us
            return None

    def _refused(self, places: Mapping[int, int]) -> DeadLetter | None:
        commands = self._settings.topics.commands
        keys = (f"{commands}-{partition}-{offset}" for partition, offset in places.items())
        return next((self._letters[key] for key in keys if key in self._letters), None)

    async def _committed(self, places: Mapping[int, int]) -> bool:
        found = await self._admin.list_consumer_group_offsets(self._settings.topics.worker_group)
        commands = self._settings.topics.commands
        known = {tp.partition: entry.offset for tp, entry in found.items() if tp.topic == commands}
        return all(known.get(partition, -1) > offset for partition, offset in places.items())

    async def _read_to_end(self) -> None:
        ends = await self._consumer.end_offsets(self._consumer.assignment())
        while any([await self._consumer.position(place) < end for place, end in ends.items()]):
            await self._read()

    async def _newest(self) -> Circuit | None:
        """The circuit's newest record, from the beginning of its partition: nothing has changed since."""
        self._consumer.assign([self._circuits])
        await self._consumer.seek_to_beginning(self._circuits)
        end = (await self._consumer.end_offsets([self._circuits]))[self._circuits]
        newest: Circuit | None = None
        while await self._consumer.position(self._circuits) < end:
            for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    circuit = self._decode(record)
                    if circuit is not None and (newest is None or circuit.version >= newest.version):
                        newest = circuit
        return newest

    async def _learn(self, topic: str) -> set[int]:
        """The partitions of a topic that this client has not met yet."""
        description = await self._admin.describe_topics([topic])
        return {entry["partition"] for entry in description[0]["partitions"]}

    async def _explain(self, timeout_s: float) -> str:
        group = self._settings.topics.worker_group
        later = "It is in the log, and applied as soon as one reads it."
        try:
            async with asyncio.timeout(_EXPLAIN_S):
                (answer,) = await self._admin.describe_consumer_groups([group])
                members = answer.groups[0][-2 if answer.API_VERSION >= 3 else -1]
        except Exception as error:  # noqa: BLE001 - the command was sent; why nobody confirms it is a courtesy
            return f"not confirmed within {timeout_s:g} s ({type(error).__name__} asking for the workers). {later}"
        if not members:
            return f"not confirmed: no worker runs (the group {group} has no members). {later}"
        return f"not confirmed within {timeout_s:g} s, though {len(members)} worker(s) run: see their lag. {later}"
