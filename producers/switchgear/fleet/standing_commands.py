"""A policy set by glob: into the partition's own table, and on to every circuit of it that the glob covers."""

from __future__ import annotations

from collections.abc import Callable

from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import Changes, LogRecord
from switchgear.fleet.overlay import given, laid_over, merged
from switchgear.fleet.row import Row
from switchgear.fleet.shelf import Shelf
from switchgear.fleet.standing import Standing, TooManyGlobsError
from switchgear.policies import PolicyError
from switchgear.policies.glob import matches, sample_of
from switchgear_schemas import Cause, Command, InvalidExecutionError


def fold_standing(
    record: LogRecord,
    origin: tuple[int, int],
    command: Command,
    shelf: Shelf,
    changes: Changes,
    touch: Callable[[LiveCircuit], None],
) -> None:
    """Apply one copy of the command, the one of this partition. Sent to one partition alone it holds for that one's tools.

    Every circuit that the glob covers is woken and written: what it remembers then doesn't hang on which were awake.

    Raises:
        InvalidExecutionError: for some tool it is impossible, or there are as many globs as there may be.
    """
    partition, offset = origin
    standing = shelf.standing(record.partition)
    assert command.policy is not None
    if offset <= standing.fences.get(partition, -1) or str(command.command_id) in standing.commands:
        changes.duplicates += 1
        return
    layer = merged(standing.tables.get(command.tool_name), given(command.policy))
    if layer == standing.tables.get(command.tool_name):
        changes.commands += 1  # the same values again, or none to take back: nothing changes
        return
    before = dict(standing.tables)
    try:
        standing.set(command, layer)
        names = [name for name in shelf.tools_of(record.partition) if matches(command.tool_name, name)]
        _check(shelf, standing, command.tool_name, names)
    except (PolicyError, TooManyGlobsError) as error:
        standing.tables = before
        standing.commands = tuple(known for known in standing.commands if known != str(command.command_id))
        raise InvalidExecutionError("policy", error.message) from None
    standing.fences[partition] = offset
    changes.commands += 1
    changes.standing[record.partition] = standing
    for name in names:
        for live in list(shelf.of_tool(name)):
            _follow(live, shelf, command, record.timestamp / 1000, changes)
            touch(live)


def _check(shelf: Shelf, standing: Standing, glob: str, names: list[str]) -> None:
    """Over the file's policy of each tool that is there, and of one that may come."""
    for name in names or [sample_of(glob)]:
        found = shelf.find(name)
        row = Row(circuit_id=name, tool_name=name) if found is None else found.row
        laid_over(shelf.file_policy(name), shelf.layers_in(standing, row))


def _follow(live: LiveCircuit, shelf: Shelf, command: Command, arrived: float, changes: Changes) -> None:
    row = live.row
    now = row.clock = max(arrived, row.clock)
    row.applied += 1
    tool = shelf.find(row.tool_name)
    assert tool is not None
    live.policy = shelf.policy_of(tool.row)
    live.breaker.set_policy(live.policy, now)
    if live.differs_from_record():  # a new mode or fallback is the callers' to know; thresholds are the owner's own
        cause = Cause(rule="set_policy", actor=command.actor, reason=command.reason or None)
        changes.circuits.append(live.publish(now, cause))
