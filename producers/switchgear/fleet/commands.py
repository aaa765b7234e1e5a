"""Commands: what an operator tells a tool's circuits, applied once, in the order of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import Changes, LogRecord, Rekeyed, dead_letter, origin_of
from switchgear.fleet.policy_overrides import PolicyOverrides, TooManyGlobsError, given, is_standing, laid_over, merged
from switchgear.fleet.registry import CircuitRegistry, TooManyToolsError
from switchgear.fleet.rows import Row
from switchgear.policies import PolicyError
from switchgear.policies.glob import matches, sample_of
from switchgear_schemas import BreakerPolicy, Cause, Command, InvalidExecutionError
from switchgear_schemas.headers import REKEYED
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.records import check_readable, check_time

MAX_COMMAND_BYTES = 65_536
"""A command with its policy is below 4 kB; what is larger is not one."""

Touch = Callable[[LiveCircuit], None]


def fold_command(record: LogRecord, shelf: CircuitRegistry, partitions: int, changes: Changes, touch: Touch) -> None:
    """Apply one message of the commands topic to the circuits it is about; one that can't be goes to the dead letters."""
    try:
        check_readable(record)
        check_time(record)
        command = _decode(record.value)
        origin = origin_of(record, partitions)
        if is_standing(command):
            fold_standing(record, origin, command, shelf, changes, touch)
        elif owner_partition(command.tool_name, partitions) != record.partition:
            assert record.value is not None
            headers = [(REKEYED, b"%d:%d" % origin)]
            changes.rekeyed.append(Rekeyed(record.topic, command.tool_name, record.value, headers, record))
        else:
            _fold(record, origin, command, shelf, changes, touch)
    except (InvalidExecutionError, TooManyToolsError) as error:
        changes.dead.append(dead_letter(record, error.field, error.reason))


def _fold(
    record: LogRecord, origin: tuple[int, int], command: Command, shelf: CircuitRegistry, changes: Changes, touch: Touch
) -> None:
    partition, offset = origin
    arrived = record.timestamp / 1000
    if _takes_back(command) and shelf.find(command.tool_name) is None:
        # Nothing stands, and a row would make a circuit of a name that may be a typing error. Without a row there is no fence: a replay
        # that finds the tool's row by then applies the command as if it had come after the tool's first events.
        changes.commands += 1
        return
    tool = shelf.tool(command.tool_name, arrived)
    touch(tool)
    known = tool.remembers(str(command.command_id))
    # Refused before the fence is raised: a crash then makes the dead letter up.
    circuits = [] if known else _addressed(shelf, tool, command, arrived)
    layer = tool.row.policy if known or command.policy is None else _with_values(shelf, tool, command.policy)
    if command.policy is not None and layer == tool.row.policy:
        circuits = []  # the same values again, or none to take back: nothing changes
    if offset <= tool.row.command_fences.get(partition, -1):
        changes.duplicates += 1
        return
    tool.row.command_fences[partition] = offset
    tool.row.applied += 1
    if known:
        changes.duplicates += 1
        return
    changes.commands += 1
    tool.row.policy = layer
    tool.row.clock = max(arrived, tool.row.clock)
    tool.remember(str(command.command_id))
    policy = None if command.policy is None else shelf.policy_of(tool.row)
    for live in circuits:
        _apply(live, command, policy, arrived, changes)
        touch(live)


def _takes_back(command: Command) -> bool:
    """The command undoes what stands: on a circuit that does not exist it changes nothing."""
    return command.verb in {"close", "reset", "auto"} or (command.policy is not None and not given(command.policy))


def _addressed(shelf: CircuitRegistry, tool: LiveCircuit, command: Command, now: float) -> Sequence[LiveCircuit]:
    """The circuits that the command is about: the one it names (made where it is new, unless the command takes back), or all of the tool.

    Raises:
        InvalidExecutionError: it names a circuit that nothing would be counted in.
    """
    name, circuit_id = tool.row.tool_name, command.circuit_id
    if circuit_id is None:
        return list(shelf.of_tool(name))
    if circuit_id == name:
        return [tool]
    scope = tool.policy.scope
    head, whose = circuit_id[: len(name) + len(scope) + 2], circuit_id[len(name) + len(scope) + 2 :]
    if scope == "tool" or head != f"{name}|{scope}=" or not whose:
        wanted = name if scope == "tool" else f"{name}|{scope}=…"
        raise InvalidExecutionError("circuit_id", f"the policy's scope is {scope}: circuits of this tool are {wanted}")
    if _takes_back(command) and shelf.find(circuit_id) is None:
        return []
    live = shelf.scoped(tool, scope, whose, now)
    if live is tool:
        raise InvalidExecutionError("circuit_id", "the tool has as many circuits as it may, and none of them is idle")
    return [live]


def _with_values(shelf: CircuitRegistry, tool: LiveCircuit, policy: BreakerPolicy) -> bytes | None:
    """What is set of the tool's policy once the command's values are in.

    Raises:
        InvalidExecutionError: together with what is in force they are impossible.
    """
    row = tool.row
    layer = merged(row.policy, given(policy))
    if layer is not None:
        below = shelf.layers(row)[:-1] if row.policy is not None else shelf.layers(row)
        try:
            laid_over(shelf.file_policy(row.tool_name), (*below, layer))
        except PolicyError as error:
            raise InvalidExecutionError("policy", error.message) from None
    return layer


def _apply(live: LiveCircuit, command: Command, policy: BreakerPolicy | None, arrived: float, changes: Changes) -> None:
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
        policy=policy,
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


def fold_standing(
    record: LogRecord,
    origin: tuple[int, int],
    command: Command,
    shelf: CircuitRegistry,
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


def _check(shelf: CircuitRegistry, standing: PolicyOverrides, glob: str, names: list[str]) -> None:
    """Over the file's policy of each tool that is there, and of one that may come."""
    for name in names or [sample_of(glob)]:
        found = shelf.find(name)
        row = Row(circuit_id=name, tool_name=name) if found is None else found.row
        laid_over(shelf.file_policy(name), shelf.layers_in(standing, row))


def _follow(live: LiveCircuit, shelf: CircuitRegistry, command: Command, arrived: float, changes: Changes) -> None:
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
