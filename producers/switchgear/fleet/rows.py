"""The rows of the table and its changelog: one per circuit, and two per partition: the policies set by glob, and the placement of tools.

Layout of the bytes: one byte of schema version, eight bytes of ``applied`` (big-endian), then a msgpack array. The counter
comes first so that two versions of one row compare without a decode (:func:`applied`).
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from switchgear.breaker import snapshot
from switchgear.breaker.values import MAX_COUNT, Count, Instant
from switchgear.fleet.durations import Bucket
from switchgear.pacing.pacing import Pacing
from switchgear.policies.glob import matches, specificity
from switchgear_schemas import CircuitScope, Mode, SwitchgearError
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.enums import MAX_NAME_LENGTH, ErrorClass
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.partitioner import partition_of

SCHEMA: Final = 1
HEAD: Final = 9
"""Bytes before the msgpack array."""
MAX_COMMANDS: Final = 64
"""Command ids that a row remembers. A producer sends a command again within seconds, not after 64 others."""
MAX_ERROR_LENGTH: Final = 500
"""Characters of ``last_error``, which is written with every batch of a failing tool."""
MAX_ID_LENGTH: Final = 4_096
"""Characters of a circuit's id. New ids have 1,552 at most. Older versions accepted longer names of users."""
_NO_CIRCUIT: Final = b"\xff"
"""First byte of the keys that are not a circuit's. No circuit id in UTF-8 starts with it."""
MARK: Final = _NO_CIRCUIT + b"mark"
"""Key of the marks in the changelog. They are tombstones, so compaction removes them."""

_PLACEMENT: Final = _NO_CIRCUIT + b"placement-"

Fences = dict[Count, Annotated[int, Meta(ge=-1, lt=MAX_COUNT)]]
"""Partition to the last offset applied from it. A message at or below that offset is a replay."""


class RowError(SwitchgearError):
    """A row of the changelog is damaged, of another schema version, or not one that an owner writes."""


class Row(msgspec.Struct, array_like=True, kw_only=True):
    """State of one circuit. Append new fields with a default: older rows then still load."""

    circuit_id: Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
    tool_name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    scope: CircuitScope = "tool"
    breaker: bytes = b""
    """Snapshot of the breaker, as of the last write."""
    fences: Fences = {}
    """Of the executions topic. A tool's row has those of all its circuits: they outlive a retired circuit of a user, session or target."""
    command_fences: Fences = {}
    """Of the commands topic."""
    applied: Count = 0
    """Rises with every message applied: of two versions of a row, the one with the higher number is the newer. It starts at
    :func:`first_applied` for a circuit that may have existed before, else at 0."""
    clock: Instant = 0.0
    """Latest broker timestamp applied, in seconds. The circuit's time goes backwards only if a broker's clock was ahead: see
    :meth:`switchgear.fleet.circuit.LiveCircuit.follow_clock`."""
    total_calls: Count = 0
    total_failed: Count = 0
    total_ignored: Count = 0
    """Errors and timeouts of a class that the policy doesn't count. Part of ``total_calls``."""
    late: Count = 0
    """Calls that arrived too long after they were made to be counted. Not part of ``total_calls``."""
    total_rejected: Count = 0
    rejected: Count = 0
    """Calls rejected since the state last changed."""
    last_error: str | None = None
    commands: tuple[str, ...] = ()
    """Ids of the commands applied last, the newest at the end."""
    policy: bytes | None = None
    """Values (JSON) that operators set for this tool by command. They go over the policy file's."""
    version: Count = 0
    """Version of the circuit's last record. It starts at :func:`first_version` for the circuit of a user, session or target, else at 0."""
    record: bytes | None = None
    """That record. If a crash loses it before it is published, the next owner publishes the same bytes."""
    state: str = "closed"
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    command_until: Instant | None = None
    """When an operator's command for a limited time ends, by the broker's clock."""
    outage_at: Instant | None = None
    """Of a family that opened: the begin of the window in which its calls failed."""
    admitted_share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """As in the last record."""
    durations: dict[Bucket, Count] = {}
    """Of the tool's own circuit: its successes by duration (:class:`~switchgear.fleet.durations.Durations`)."""
    overdue_after_ms: Annotated[float, Meta(gt=0)] | None = None
    """As in the last record."""
    limit_at: Instant = 0.0
    """When it was last looked whether that is still right."""
    target: str | None = None
    """As in the last record."""
    last_error_class: ErrorClass | None = None
    """Class of the last counted failure."""
    pacing: Pacing | None = None
    """Of the tool's own circuit: the rate that the tool takes. None if no limit is known and none is to be kept."""
    paced: bool = False
    """Whether the last record said that processes keep the tool's limits."""

    @property
    def key(self) -> bytes:
        """Key in the table, in the changelog and in the circuits topic."""
        return self.circuit_id.encode()

    def encode(self) -> bytes:
        """Return the bytes for the table."""
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Row:
        """Return the row in bytes of the table.

        Raises:
            RowError: The bytes are of another schema version, or damaged.
        """
        return _decode(data, cls)


class PolicyOverrides(msgspec.Struct, array_like=True, kw_only=True):
    """The values that operators set by glob, for the tools of one partition.

    Append new fields with a default: older rows then still load.
    """

    partition: Count
    fences: Fences = {}
    """Of the commands topic."""
    applied: Count = 0
    """Rises with every change."""
    commands: tuple[str, ...] = ()
    """Ids of the commands applied last."""
    tables: dict[str, bytes] = {}
    """Glob to the values set (JSON)."""

    @property
    def key(self) -> bytes:
        """Key in the table and its changelog."""
        return _NO_CIRCUIT + b"%d" % self.partition

    def covering(self, tool_name: str) -> list[str]:
        """Return the globs that cover the tool, the most specific last."""
        return sorted((glob for glob in self.tables if matches(glob, tool_name)), key=specificity)

    def layers(self, tool_name: str, own: bytes | None) -> tuple[bytes, ...]:
        """Return the values for a tool, those that win last. ``own`` are those set for this tool alone, which win over all globs."""
        layers = [self.tables[glob] for glob in self.covering(tool_name)]
        return tuple(layers) if own is None else (*layers, own)

    def encode(self) -> bytes:
        """Return the bytes for the table."""
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> PolicyOverrides:
        """Return the row in bytes of the table.

        Raises:
            RowError: The bytes are of another schema version, or damaged.
        """
        return _decode(data, cls)


class Placement(msgspec.Struct, array_like=True, kw_only=True):
    """How the circuits of a partition were placed: by this ``family_pattern``, and among so many partitions. It never changes.

    Append new fields with a default: older rows then still load.
    """

    partition: Count
    pattern: str
    """In its canonical form."""
    partitions: Count
    applied: Count = 0
    """Always 0. Every row has it."""

    @property
    def key(self) -> bytes:
        """Key in the table and its changelog."""
        return placement_key(self.partition)

    def encode(self) -> bytes:
        """Return the bytes for the table."""
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Placement:
        """Return the row in bytes of the table.

        Raises:
            RowError: The bytes are of another schema version, or damaged.
        """
        return _decode(data, cls)


AnyRow = TypeVar("AnyRow", Row, PolicyOverrides, Placement)
_encoder: Final = msgspec.msgpack.Encoder()
_decoders: Final[dict[type, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Row, PolicyOverrides, Placement)
}


def _encode(row: Row | PolicyOverrides | Placement) -> bytes:
    return b"%c%b%b" % (SCHEMA, row.applied.to_bytes(8, "big"), _encoder.encode(row))


def _decode(data: bytes, kind: type[AnyRow]) -> AnyRow:
    if len(data) <= HEAD or data[0] != SCHEMA:
        found = f"version {data[0]}" if data else "no bytes"
        raise RowError(
            f"A row of the changelog has {found}, this worker reads version {SCHEMA}.",
            hint="Run the version of Switchgear that wrote it, or a newer one.",
        )
    try:
        row: AnyRow = _decoders[kind].decode(memoryview(data)[HEAD:])
    except msgspec.MsgspecError as error:
        raise RowError(f"A row of the changelog is damaged: {error}.") from None
    return row


def check_row(key: bytes, data: bytes, partition: int, partitions: int, family_pattern: str = DEFAULT_PATTERN) -> None:
    """Check that the owner of ``partition`` may have written a row under ``key``. Anyone with access to the changelog may write there.

    Raises:
        RowError: The row is damaged, of another version, under the key of another row, or in another partition.
    """
    try:
        row = _kind_of(key).decode(data)
        owner = partition_of(row.tool_name, partitions, family_pattern) if isinstance(row, Row) else row.partition
        wrong = _wrong(key, data, row, in_its_partition=owner == partition)
    except RowError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever bytes can make a decoder raise
        reason = error.message if isinstance(error, SwitchgearError) else repr(error)
        raise RowError(f"A row of the changelog is damaged: {reason}.") from None
    if wrong is not None:
        raise RowError(f"A row of the changelog is damaged: {wrong}.")


def _kind_of(key: bytes) -> type[Row | PolicyOverrides | Placement]:
    if is_circuit(key):
        return Row
    return Placement if key.startswith(_PLACEMENT) else PolicyOverrides


def _wrong(key: bytes, data: bytes, row: Row | PolicyOverrides | Placement, *, in_its_partition: bool) -> str | None:
    layers: list[bytes] = []
    if isinstance(row, Row):
        if not is_circuit_of(row.circuit_id, row.tool_name, row.scope):
            return f"a circuit of scope {row.scope} has another name"
        if row.breaker and snapshot.decode(row.breaker).circuit_id != row.circuit_id:
            return "the breaker in it is another circuit's"
        layers = [b"{}" if row.policy is None else row.policy]
    elif isinstance(row, PolicyOverrides):
        layers = list(row.tables.values())
    if row.key != key or not in_its_partition:
        return "it belongs under another key or into another partition"
    if int.from_bytes(applied(data), "big") != row.applied:
        return "its head says another number of messages applied"
    if not all(isinstance(json.loads(layer), dict) for layer in layers):
        return "the values set of a policy are not a JSON object"
    return None


def is_circuit(key: bytes) -> bool:
    """Return whether a key of the table is a circuit's."""
    return not key.startswith(_NO_CIRCUIT)


def placement_key(partition: int) -> bytes:
    """Return the key of a partition's :class:`Placement`."""
    return _PLACEMENT + b"%d" % partition


def is_placement(key: bytes) -> bool:
    """Return whether a key of the table is that of a :class:`Placement`."""
    return key.startswith(_PLACEMENT)


def is_overrides(key: bytes) -> bool:
    """Return whether a key of the table is that of the policies set by glob."""
    return not is_circuit(key) and not is_placement(key)


def is_circuit_of(circuit_id: str, tool_name: str, scope: CircuitScope) -> bool:
    """Return whether ``circuit_id`` is the id of the tool's own circuit, of one of its users', sessions or targets, or of the family of that name."""
    return circuit_id == id_of(tool_name, scope, read_circuit_id(circuit_id).whose)


def first_version(now: float) -> int:
    """Return the version before the first one of a circuit that may have existed before: broker time in milliseconds.

    A reader that missed the circuit's tombstone still holds an old version, and that one is lower: no circuit changes its
    state a thousand times a second.
    """
    return int(now * 1000)


def first_applied(now: float) -> int:
    """Return ``applied`` for such a circuit's new row, above every row from before. There is room for 2**20 a millisecond."""
    return int(now * 1000) << 20


def applied(data: bytes) -> bytes:
    """Return ``applied`` of an encoded row, as bytes that compare like the number."""
    return data[1:HEAD]


def describe_error(error_type: str | None, error_message: str | None, status: str) -> str:
    """Return ``Type: message``, bounded, for the record's ``last_error``."""
    kind = error_type or status
    return (f"{kind}: {error_message}" if error_message else kind)[:MAX_ERROR_LENGTH]
