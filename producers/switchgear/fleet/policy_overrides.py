"""Values that operators set over the policy file by command, for a glob or for one tool.

Each partition keeps its own copy of the values by glob, for the tools it has and those to come. The values of one tool are in its row.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from typing import Any, Final

import msgspec

from switchgear.fleet.rows import MAX_COMMANDS, PolicyOverrides
from switchgear.policies import PolicyError, PolicySet
from switchgear.policies.glob import is_glob
from switchgear_schemas import BreakerPolicy, Command, InvalidExecutionError
from switchgear_schemas.partitioner import owner_partition

log: Final = logging.getLogger("switchgear.fleet")

MAX_GLOBS: Final = 200
"""Each is matched against a tool's name when the tool's circuit is loaded."""
MAX_TABLES_BYTES: Final = 1_048_576
"""All values together: the row then fits the changelog with room to spare."""
SOURCE: Final = "the command"


def sets_glob(command: Command) -> bool:
    """Return whether the command sets the policy of a glob. Every partition gets a copy of such a command."""
    return command.verb == "set_policy" and is_glob(command.tool_name)


def after_command(
    overrides: PolicyOverrides, command: Command, values: bytes | None, partition: int, offset: int
) -> PolicyOverrides:
    """Return the row after a command at ``offset`` of ``partition``. ``values`` are the glob's from now on; None removes them.

    Raises:
        InvalidExecutionError: The partition has as many globs, or as many bytes of values, as it may have.
    """
    tables = dict(overrides.tables)
    if values is None:
        tables.pop(command.tool_name, None)
    else:
        tables[command.tool_name] = values
        if len(tables) > MAX_GLOBS or sum(map(len, tables.values())) > MAX_TABLES_BYTES:
            raise InvalidExecutionError(
                "policy",
                f"the policies set by glob would be more than {MAX_GLOBS} or have more than {MAX_TABLES_BYTES >> 10} KiB; "
                "put some into the policy file, or clear one",
            )
    return msgspec.structs.replace(
        overrides,
        fences={**overrides.fences, partition: offset},
        applied=overrides.applied + 1,
        commands=(*overrides.commands, str(command.command_id))[-MAX_COMMANDS:],
        tables=tables,
    )


@lru_cache(maxsize=1024)
def name_owned_by(partition: int, partitions: int) -> str:
    """Return a tool name that ``partition`` owns: a row is written to the partition of its tool."""
    if not 0 <= partition < partitions:
        raise ValueError(f"there is no partition {partition} among {partitions}")
    return next(name for number in count() if owner_partition(name := f"policies-{number}", partitions) == partition)


def named_values(policy: BreakerPolicy) -> dict[str, Any]:
    """Return the values that a command names, in JSON's types, without those it leaves out."""
    values: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True)
    return values


def merged(before: bytes | None, values: Mapping[str, Any]) -> bytes | None:
    """Return the values set before with ``values`` over them. If ``values`` is empty, return None: nothing is set any more."""
    if not values:
        return None
    known: dict[str, Any] = {} if before is None else json.loads(before)
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(known.get(key), dict)
        known[key] = {**known[key], **value} if both else value
    return json.dumps(known, sort_keys=True).encode()


@lru_cache(maxsize=1024)
def laid_over(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    """Return ``base`` with each layer (JSON) over it, the last one on top.

    Raises:
        PolicyError: The values together are not a possible policy.
    """
    for layer in layers:
        base = PolicySet(json.loads(layer), base=base, source=SOURCE).effective("")
    return base


@lru_cache(maxsize=1024)
def laid_over_or_base(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    """Return :func:`laid_over`, or ``base`` if that fails: the values were possible before the policy file changed.

    An owner that raised here would leave its circuits without an owner. The log says it once, as an error.
    """
    try:
        return laid_over(base, layers)
    except Exception as error:  # noqa: BLE001 - an older version may have written a row that this one can't use
        reason = error if isinstance(error, PolicyError) else repr(error)
        log.error("values set by command are ignored, those of the policy file hold: %s", reason)  # noqa: TRY400 - no trace helps
        return base
