"""PolicyOverrides: the policies that operators set by glob. Every partition keeps its own copy, for the tools it has and those to come."""

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

MAX_GLOBS: Final = 200
"""Each is matched against a tool's name when its circuit wakes."""
_OURS: Final = b"\xff"
"""Begins the keys that are no circuit's: no circuit id in UTF-8 does."""
MARK: Final = _OURS + b"mark"
"""Key of the marks in the changelog, which are tombstones: compaction removes them. (Before, it was a key that a tool could have.)"""
MAX_TABLES_BYTES: Final = 1_048_576
"""Of all the values together: the row fits the changelog with room to spare."""


class TooManyGlobsError(SwitchgearError):
    """A glob too many was set by command."""


class PolicyOverrides(msgspec.Struct, array_like=True, kw_only=True):
    """One partition's policies by glob, a row of the table like a circuit's. New fields go to the end and have defaults."""

    partition: Count
    fences: Fences = {}
    """Of the commands topic."""
    applied: Count = 0
    """Rises with every change: of two versions of the row the higher one is the newer."""
    commands: tuple[str, ...] = ()
    """Ids of the commands applied last."""
    tables: dict[str, bytes] = {}
    """Glob to the values set (JSON)."""

    @property
    def key(self) -> bytes:
        """Key in the table and its changelog."""
        return _OURS + b"%d" % self.partition

    def set(self, command: Command, values: bytes | None) -> None:
        """Take a glob's values in, or out where there are none.

        Raises:
            TooManyGlobsError: there are as many as there may be.
        """
        if values is None:
            self.tables.pop(command.tool_name, None)
        elif command.tool_name not in self.tables and len(self.tables) >= MAX_GLOBS:
            raise TooManyGlobsError(
                f"{MAX_GLOBS} globs have a policy set by command.", hint="Put it into the policy file, or clear one."
            )
        elif sum(map(len, self.tables.values())) + len(values) > MAX_TABLES_BYTES:
            raise TooManyGlobsError(
                f"The policies set by glob have more than {MAX_TABLES_BYTES >> 10} KiB.",
                hint="Put some into the policy file, or clear one.",
            )
        else:
            self.tables[command.tool_name] = values
        self.commands = (*self.commands, str(command.command_id))[-MAX_COMMANDS:]
        self.applied += 1

    def covering(self, tool_name: str) -> list[str]:
        """The globs that cover the tool, most specific last."""
        return sorted((glob for glob in self.tables if matches(glob, tool_name)), key=specificity)

    def layers(self, tool_name: str) -> list[bytes]:
        """Their values, in the same order."""
        return [self.tables[glob] for glob in self.covering(tool_name)]

    def encode(self) -> bytes:
        """To the bytes of the table; they begin as a circuit's row does."""
        return b"%c%b%b" % (SCHEMA, self.applied.to_bytes(8, "big"), _encoder.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> PolicyOverrides:
        """From the bytes of the table.

        Raises:
            RowError: the bytes are damaged.
        """
        try:
            return _decoder.decode(memoryview(data)[HEAD:])
        except msgspec.MsgspecError as error:
            raise RowError(f"The changelog's row of policies by glob is damaged: {error}.") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(PolicyOverrides)


def is_standing(command: Command) -> bool:
    """The command sets the policy of a glob: each partition has its own copy of it, whoever owns that name."""
    return command.verb == "set_policy" and is_glob(command.tool_name)


def is_circuit(key: bytes) -> bool:
    """The key of a table row is a circuit's."""
    return not key.startswith(_OURS)


@lru_cache(maxsize=1024)
def partition_key(partition: int, partitions: int) -> str:
    """A tool name that ``partition`` owns: rows are written to the partition of their tool."""
    if not 0 <= partition < partitions:
        raise ValueError(f"there is no partition {partition} among {partitions}")
    return next(name for number in count() if owner_partition(name := f"policies-{number}", partitions) == partition)


log: Final = logging.getLogger("switchgear.fleet")
SOURCE: Final = "the command"


def given(policy: BreakerPolicy) -> dict[str, Any]:
    """The values that a command names, as JSON has them; those it leaves out are not in."""
    values: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True)
    return values


def merged(before: bytes | None, values: Mapping[str, Any]) -> bytes | None:
    """Values set before with the newer ones over them; null where ``values`` is empty: nothing is set any more."""
    if not values:
        return None
    known: dict[str, Any] = {} if before is None else json.loads(before)
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(known.get(key), dict)
        known[key] = {**known[key], **value} if both else value
    return json.dumps(known, sort_keys=True).encode()


def laid_over(base: BreakerPolicy, layers: Sequence[bytes]) -> BreakerPolicy:
    """``base`` with each layer (JSON) over it, the last one on top.

    Raises:
        PolicyError: together they are impossible.
    """
    return _laid_over(base, tuple(layers)) if layers else base


@lru_cache(maxsize=1024)
def _laid_over(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    for layer in layers:
        base = PolicySet(json.loads(layer), base=base, source=SOURCE).effective("")
    return base


@lru_cache(maxsize=1024)
def tolerant(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    """:func:`laid_over` for values that were possible when they were set, and are not over a policy file that changed since.

    Then the file's hold: an owner that refused to go on would leave its circuits to nobody. Said once, as an error.
    """
    try:
        return laid_over(base, layers)
    except Exception as error:  # noqa: BLE001 - a row of an older version may hold what nothing of ours foresees
        reason = error if isinstance(error, PolicyError) else repr(error)
        log.error("values set by command are passed over, the policy file's hold: %s", reason)  # noqa: TRY400 - no trace helps
        return base
