"""Commands: what an operator tells a tool's circuits, applied once, in the order of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.limits import TooManyToolsError
from switchgear.fleet.log import Changes, LogRecord, Rekeyed
from switchgear.fleet.origin import dead_letter, origin_of
from switchgear.fleet.shelf import Shelf
from switchgear_schemas import Command, InvalidExecutionError
from switchgear_schemas.headers import REKEYED
from switchgear_schemas.partitioner import owner_partition

MAX_COMMAND_BYTES = 65_536
"""A command with its policy is below 4 kB; what is larger is not one."""


def fold_command(
    record: LogRecord, shelf: Shelf, partitions: int, changes: Changes, touch: Callable[[LiveCircuit], None]
) -> None:
    """Apply one message of the commands topic to every circuit of its tool; a malformed one goes to the dead letters."""
    try:
        command = _decode(record.value)
        partition, offset = origin_of(record, partitions)
    except InvalidExecutionError as error:
        changes.dead.append(dead_letter(record, error.field, error.reason))
        return
    if owner_partition(command.tool_name, partitions) != record.partition:
        assert record.value is not None
        headers = [(REKEYED, b"%d:%d" % (partition, offset))]
        changes.rekeyed.append(Rekeyed(record.topic, command.tool_name, record.value, headers))
        return
    try:
        tool = shelf.tool(command.tool_name, record.timestamp / 1000)
    except TooManyToolsError as error:
        changes.dead.append(dead_letter(record, error.field, error.reason))
        return
    if offset <= tool.row.command_fences.get(partition, -1):
        changes.duplicates += 1
        return
    applied_before = tool.remembers(str(command.command_id))
    tool.row.command_fences[partition] = offset
    tool.row.applied += 1
    touch(tool)
    if applied_before:
        changes.duplicates += 1
        return
    changes.commands += 1
    if command.policy is not None:
        tool.row.policy = command.policy.model_dump_json().encode()
    for live in list(shelf.of_tool(command.tool_name)):
        _apply(live, command, record.timestamp / 1000, changes)
        touch(live)


def _apply(live: LiveCircuit, command: Command, arrived: float, changes: Changes) -> None:
    row = live.row
    now = row.clock = max(arrived, row.clock)
    if row.circuit_id != row.tool_name:
        row.applied += 1
    live.remember(str(command.command_id))
    published = live.command(
        command.verb,
        now,
        actor=command.actor,
        reason=command.reason,
        until=None if command.until is None else command.until.timestamp(),
        policy=command.policy,
    )
    if published is not None:
        changes.circuits.append(published)


def _decode(value: bytes | None) -> Command:
    if not value:
        raise InvalidExecutionError("", "the message is empty")
    if len(value) > MAX_COMMAND_BYTES:
        raise InvalidExecutionError(
            "", f"the command has {len(value)} bytes, more than the {MAX_COMMAND_BYTES} allowed"
        )
    try:
        return Command.model_validate_json(value)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors()[0])
        raise InvalidExecutionError(".".join(str(part) for part in first["loc"]), str(first["msg"])) from None
