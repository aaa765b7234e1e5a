"""Values that operators set over the policy file by command, for a glob or for one tool.

Each partition keeps its own copy of the values by glob, for the tools it has and those to come. The values of one tool are in its row.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

import msgspec

from switchgear.breaker.snapshot import Count
from switchgear.fleet.rows import HEAD, MAX_COMMANDS, SCHEMA, Fences, RowError
from switchgear.policies import PolicyError, PolicySet
from switchgear.policies.glob import is_glob, matches, specificity
from switchgear_schemas import BreakerPolicy, Command, SwitchgearError
from switchgear_schemas.partitioner import owner_partition

log: Final = logging.getLogger("switchgear.fleet")

MAX_GLOBS: Final = 200
"""Each is matched against a tool's name when the tool's circuit is loaded."""
MAX_TABLES_BYTES: Final = 1_048_576
"""All values together: the row then fits the changelog with room to spare."""
SOURCE: Final = "the command"
_NO_CIRCUIT: Final = b"\xff"
"""First byte of the keys that are not a circuit's. No circuit id in UTF-8 starts with it."""
MARK: Final = _NO_CIRCUIT + b"mark"
"""Key of the marks in the changelog. They are tombstones, so compaction removes them."""


class TooManyGlobsError(SwitchgearError):
    """The globs, or their values, are more than a partition keeps."""


class PolicyOverrides(msgspec.Struct, array_like=True, kw_only=True):
    """One partition's values by glob: a row of the table, beside those of the circuits.

    Append new fields with a default: older rows then still load.
    """

    partition: Count
    fences: Fences = {}
    """Of the commands topic."""
    applied: Count = 0
    """Rises with every change: of two versions of the row, the one with the higher number is the newer."""
    commands: tuple[str, ...] = ()
    """Ids of the commands applied last."""
    tables: dict[str, bytes] = {}
    """Glob to the values set (JSON)."""

    @property
    def key(self) -> bytes:
        """Key in the table and its changelog."""
        return _NO_CIRCUIT + b"%d" % self.partition

    def changed_by(self, command: Command, values: bytes | None, fences: Mapping[int, int]) -> PolicyOverrides:
        """Return the row after a command.

        Args:
            command: Names the glob.
            values: The glob's values from now on. None removes them.
            fences: Partition and offset of the command.

        Raises:
            TooManyGlobsError: The partition has as many globs, or as many bytes of values, as it may have.
        """
        tables = dict(self.tables)
        if values is None:
            tables.pop(command.tool_name, None)
        else:
            tables[command.tool_name] = values
        if len(tables) > max(MAX_GLOBS, len(self.tables)):
            raise TooManyGlobsError(
                f"{MAX_GLOBS} globs have a policy set by command.", hint="Put it into the policy file, or clear one."
            )
        if values is not None and sum(map(len, tables.values())) > MAX_TABLES_BYTES:
            raise TooManyGlobsError(
                f"The policies set by glob have more than {MAX_TABLES_BYTES >> 10} KiB.",
                hint="Put some into the policy file, or clear one.",
            )
        return PolicyOverrides(
            partition=self.partition,
            fences={**self.fences, **fences},
            applied=self.applied + 1,
            commands=(*self.commands, str(command.command_id))[-MAX_COMMANDS:],
            tables=tables,
        )

    def covering(self, tool_name: str) -> list[str]:
        """Return the globs that cover the tool, the most specific last."""
        return sorted((glob for glob in self.tables if matches(glob, tool_name)), key=specificity)

    def layers(self, tool_name: str, own: bytes | None) -> tuple[bytes, ...]:
        """Return the values for a tool, those that win last.

        Args:
            tool_name: The tool.
            own: The values set for this tool alone, which win over all globs.
        """
        layers = [self.tables[glob] for glob in self.covering(tool_name)] if self.tables else []
        return tuple(layers) if own is None else (*layers, own)

    def encode(self) -> bytes:
        """Return the bytes for the table. They begin as those of a circuit's row do."""
        return b"%c%b%b" % (SCHEMA, self.applied.to_bytes(8, "big"), _encoder.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> PolicyOverrides:
        """Return the row in bytes of the table.

        Raises:
            RowError: The bytes are damaged.
        """
        try:
            return _decoder.decode(memoryview(data)[HEAD:])
        except msgspec.MsgspecError as error:
            raise RowError(f"The changelog's row of policies by glob is damaged: {error}.") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(PolicyOverrides)


def sets_glob(command: Command) -> bool:
    """Return whether the command sets the policy of a glob. Every partition gets a copy of such a command."""
    return command.verb == "set_policy" and is_glob(command.tool_name)


def is_circuit(key: bytes) -> bool:
    """Return whether a key of the table is a circuit's."""
    return not key.startswith(_NO_CIRCUIT)


@lru_cache(maxsize=1024)
def partition_key(partition: int, partitions: int) -> str:
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


def laid_over(base: BreakerPolicy, layers: Sequence[bytes]) -> BreakerPolicy:
    """Return ``base`` with each layer (JSON) over it, the last one on top.

    Raises:
        PolicyError: The values together are not a possible policy.
    """
    return _laid_over(base, tuple(layers)) if layers else base


@lru_cache(maxsize=1024)
def _laid_over(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
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
