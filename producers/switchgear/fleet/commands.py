"""Operators' commands: each is applied once, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import LogRecord, Published, dead_letter, origin_of, rekeyed
from switchgear.fleet.policy_overrides import after_command, laid_over, merged, named_values, sets_glob
from switchgear.fleet.registry import CircuitRegistry
from switchgear.fleet.rows import PolicyOverrides
from switchgear.policies import PolicyError
from switchgear.policies.glob import TooManyOverlapsError, coverings, matches
from switchgear.policies.policy_set import NOT_FOR_FAMILIES
from switchgear_schemas import BreakerPolicy, Cause, CircuitScope, Command, InvalidExecutionError
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.circuit_ids import read_circuit_id, tool_circuit
from switchgear_schemas.families import is_family
from switchgear_schemas.records import check_readable, check_time

MAX_COMMAND_BYTES: Final = 65_536
"""A command with its policy has less than 4 kB."""
MOST_TRIED: Final = 200
"""Names of tools to come on which a glob's policy is tried. The worker folds nothing else meanwhile."""


def fold_command(record: LogRecord, registry: CircuitRegistry) -> None:
    """Apply one message of the commands topic, or add a dead letter if that is not possible."""
    try:
        check_readable(record)
        check_time(record)
        command = _decode(record.value)
        origin = origin_of(record, registry.sources)
        if sets_glob(command):
            if record.partition >= registry.partitions:
                return  # one that was added: every partition that has circuits has its own copy
            _fold_glob(record, origin, command, registry)
        elif registry.place_of(command.tool_name).partition != record.partition:
            registry.changes.rekeyed.append(rekeyed(record, command.tool_name))
        else:
            _fold(record, origin, command, registry)
    except InvalidExecutionError as error:
        registry.changes.dead.append(dead_letter(record, error.field, error.reason))


def _decode(value: bytes | None) -> Command:
    if value is not None and len(value) > MAX_COMMAND_BYTES:
        raise InvalidExecutionError(
            "", f"the command has {len(value)} bytes, more than the {MAX_COMMAND_BYTES} allowed"
        )
    return Command.from_bytes(value)


# ---- commands to one tool or family


def _fold(record: LogRecord, origin: tuple[int, int], command: Command, registry: CircuitRegistry) -> None:
    partition, offset = origin
    arrived = record.timestamp / 1000
    tool = _holder(registry, command, arrived)
    if tool is None:
        # There is nothing to take back, and a row would make a circuit of a name that may be a typing error. Without a row there is
        # no fence: a replay that finds the tool's row by then applies the command as if it had come after the tool's first events.
        registry.changes.commands += 1
        return
    row = tool.row
    registry.touch(tool)
    repeated = str(command.command_id) in row.commands
    circuits: Sequence[LiveCircuit] = []
    layer = row.policy
    if not repeated:
        # What can fail comes before the fence is raised: after a crash in between, the dead letter is made again.
        circuits = _addressed(registry, tool, command, arrived)
        if command.policy is not None:
            layer = _with_values(registry, tool, command.policy)
            if layer == row.policy:
                circuits = []  # the same values again, or none to take back: nothing changes
    if offset <= row.command_fences.get(partition, -1):
        registry.changes.duplicates += 1
        return
    row.command_fences[partition] = offset
    row.applied += 1
    if repeated:
        registry.changes.duplicates += 1
        return
    registry.changes.commands += 1
    row.policy = layer
    row.clock = max(arrived, row.clock)
    tool.remember(str(command.command_id))
    policy = None if command.policy is None else registry.policy_of(row)
    for live in circuits:
        if live is not tool:
            live.row.applied += 1
            live.remember(str(command.command_id))
        registry.add_record(_apply(live, command, policy, arrived))
        registry.touch(live)


def _holder(registry: CircuitRegistry, command: Command, now: float) -> LiveCircuit | None:
    """Return the circuit whose row remembers the command: the tool's own, or the family's. None if there is nothing to take back.

    Raises:
        InvalidExecutionError: The command names a family that can't have tools, or there are as many names as there may be.
    """
    name, family_id = command.tool_name, id_of(command.tool_name, "family")
    family = command.circuit_id == family_id
    if family and not is_family(name, registry.family_pattern):
        raise InvalidExecutionError("circuit_id", "no tool can belong to this family by the setting family_pattern")
    if _takes_back(command) and registry.find(family_id if family else tool_circuit(name)) is None:
        return None
    return registry.family(name, now) if family else registry.tool(name, now)


def _takes_back(command: Command) -> bool:
    """Return whether the command only undoes another one: on a circuit that does not exist it changes nothing."""
    return command.verb in {"close", "reset", "auto"} or (
        command.policy is not None and not named_values(command.policy)
    )


def _addressed(registry: CircuitRegistry, tool: LiveCircuit, command: Command, now: float) -> Sequence[LiveCircuit]:
    """Return the circuit that the command names, or all of the tool if it names none.

    A named circuit that does not exist is made, unless the command only takes back.

    Raises:
        InvalidExecutionError: The command names a circuit in which nothing would be counted.
    """
    name, circuit_id = tool.row.tool_name, command.circuit_id
    if circuit_id is None:
        return list(registry.of_tool(name))
    if circuit_id == tool.row.circuit_id:
        return [tool]
    scope: CircuitScope = tool.policy.scope if tool.policy.target is None else "target"
    said = read_circuit_id(circuit_id)
    if scope == "tool" or said[:2] != (name, scope) or not said.whose:
        wanted = tool_circuit(name) if scope == "tool" else id_of(name, scope, "…")
        raise InvalidExecutionError("circuit_id", f"the policy's scope is {scope}: circuits of this tool are {wanted}")
    if _takes_back(command) and registry.find(circuit_id) is None:
        return []
    live = registry.scoped(tool, scope, said.whose, now)
    if live is tool:
        raise InvalidExecutionError("circuit_id", "the tool has as many circuits as it may, and none of them is idle")
    return [live]


def _with_values(registry: CircuitRegistry, tool: LiveCircuit, policy: BreakerPolicy) -> bytes | None:
    """Return the values set for the tool after the command.

    Raises:
        InvalidExecutionError: Together with what is in force they are not a possible policy.
    """
    name = tool.row.tool_name
    layer = merged(tool.row.policy, named_values(policy))
    if layer is not None:
        if tool.row.scope == "family":
            _check_possible_for_family(registry, name, layer)
        else:
            _check_possible(registry, name, registry.overrides(registry.place_of(name).partition), layer)
    return layer


def _check_possible(registry: CircuitRegistry, name: str, overrides: PolicyOverrides, own: bytes | None) -> None:
    try:
        laid_over(registry.policies.effective(name), overrides.layers(name, own))
    except PolicyError as error:
        raise InvalidExecutionError("policy", error.message) from None


def _check_possible_for_family(registry: CircuitRegistry, family: str, own: bytes) -> None:
    try:
        policy = laid_over(registry.policies.effective_family(family), (own,))
    except PolicyError as error:
        raise InvalidExecutionError("policy", error.message) from None
    given = {"fallback": policy.fallback, "scope": policy.scope != "tool", "target": policy.target}
    for name, why in NOT_FOR_FAMILIES.items():
        if given[name]:
            raise InvalidExecutionError("policy", why)


def _apply(live: LiveCircuit, command: Command, policy: BreakerPolicy | None, arrived: float) -> Published | None:
    row = live.row
    now = row.clock = max(arrived, row.clock)
    return live.command(
        command.verb,
        now,
        actor=command.actor,
        reason=command.reason,
        until=None if command.until is None else command.until.timestamp(),
        policy=policy,
    )


# ---- commands to a glob


def _fold_glob(record: LogRecord, origin: tuple[int, int], command: Command, registry: CircuitRegistry) -> None:
    """Apply this partition's copy of a command that sets the policy of a glob.

    Every circuit that the glob covers is loaded and written, so that its row does not depend on which circuits were live.

    Raises:
        InvalidExecutionError: For some tool the policy is not possible, or there are as many globs as there may be.
    """
    partition, offset = origin
    overrides, changes = registry.overrides(record.partition), registry.changes
    assert command.policy is not None
    if offset <= overrides.fences.get(partition, -1) or str(command.command_id) in overrides.commands:
        changes.duplicates += 1
        return
    before = overrides.tables.get(command.tool_name)
    values = merged(before, named_values(command.policy))
    if values == before:
        changes.commands += 1  # the same values again, or none to take back: nothing changes
        return
    names = [name for name in registry.tools_of(record.partition) if matches(command.tool_name, name)]
    changed = after_command(overrides, command, values, partition, offset)
    for name in (*names, *_future_names(command.tool_name, changed)):
        found = registry.find(tool_circuit(name))
        _check_possible(registry, name, changed, None if found is None else found.row.policy)
    registry.set_overrides(changed)
    changes.commands += 1
    for name in names:
        for live in list(registry.of_tool(name)):
            _follow(live, registry, command, record.timestamp / 1000)
            registry.touch(live)


def _future_names(glob: str, overrides: PolicyOverrides) -> Iterator[str]:
    """Yield a name that the glob covers for each set of other globs that can cover it too, up to :data:`MOST_TRIED`."""
    names = (name for name in coverings([glob, *overrides.tables]) if matches(glob, name))
    with suppress(TooManyOverlapsError):
        yield from islice(names, MOST_TRIED)


def _follow(live: LiveCircuit, registry: CircuitRegistry, command: Command, arrived: float) -> None:
    now = live.row.clock = max(arrived, live.row.clock)
    live.row.applied += 1
    live.policy = registry.policy_of(live.row)
    live.breaker.set_policy(live.policy, now)
    if live.differs_from_record():  # callers need a new mode or fallback; thresholds concern the owner alone
        cause = Cause(rule="set_policy", actor=command.actor, reason=command.reason or None)
        registry.add_record(live.next_record(now, cause))
