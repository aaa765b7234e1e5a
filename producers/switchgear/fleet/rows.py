"""Row: what the owner of a circuit keeps of it, the value of the table and of its changelog.

Layout of the bytes: one byte of schema version, eight bytes of ``applied`` (big-endian), then a msgpack array. The counter
stands in front so that two versions of one row compare without a decode (:func:`applied`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from switchgear_schemas import Mode, Scope, SwitchgearError

SCHEMA: Final = 1
HEAD: Final = 9
MAX_COMMANDS: Final = 64
"""Command ids a row remembers, newest last: a command is sent again within seconds, not after 64 others."""
MAX_ERROR_LENGTH: Final = 500
"""Characters of ``last_error``: it is written with every batch of a failing tool."""


class RowError(SwitchgearError):
    """Bytes of the changelog that this version can't read."""


class Row(msgspec.Struct, array_like=True, kw_only=True):
    """State of one circuit. New fields go to the end and have defaults: older rows then still load."""

    circuit_id: str
    tool_name: str
    scope: Scope = "tool"
    breaker: bytes = b""
    """Snapshot of the breaker, as of the last write."""
    fences: dict[int, int] = {}
    """Last offset applied from each partition of the executions topic; at or below it is a replay. A tool's row has those of all its
    circuits: they outlive a user's or session's circuit that retires."""
    command_fences: dict[int, int] = {}
    """The same for the commands topic."""
    applied: int = 0
    """Rises with every message applied: of two versions of a row the higher one is the newer. It starts at 0, or where the circuit
    may have existed before and retired, at :func:`first_mark`."""
    clock: float = 0.0
    """Latest broker timestamp applied, in seconds: the circuit's time never runs backwards."""
    total_calls: int = 0
    total_failed: int = 0
    total_ignored: int = 0
    """Errors and timeouts of a class that the policy doesn't count; part of ``total_calls``."""
    late: int = 0
    """Calls that arrived too long after they were made to be counted; not part of ``total_calls``."""
    total_rejected: int = 0
    rejected: int = 0
    """Refused calls since the state last changed."""
    last_error: str | None = None
    commands: tuple[str, ...] = ()
    """Ids of the commands applied last."""
    policy: bytes | None = None
    """What operators set of the policy (JSON, only the values they named), over the policy file's; null: nothing."""
    version: int = 0
    """Of the last record of this circuit. A tool's starts at 0, a user's or session's at :func:`first_version`."""
    record: bytes | None = None
    """That record, so that a publish lost in a crash is made up byte for byte."""
    state: str = "closed"
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    standing_until: float | None = None
    """Until when an operator's ``disabled`` or ``metrics_only`` stands, by the broker's clock; null: until told otherwise."""

    @property
    def key(self) -> bytes:
        """Key in the table, the changelog and the circuits topic."""
        return self.circuit_id.encode()

    def encode(self) -> bytes:
        """To the bytes of the table."""
        return b"%c%b%b" % (SCHEMA, self.applied.to_bytes(8, "big"), _encoder.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> Row:
        """From the bytes of the table.

        Raises:
            RowError: the bytes are of another schema version or damaged.
        """
        if len(data) <= HEAD or data[0] != SCHEMA:
            found = f"version {data[0]}" if data else "no bytes"
            raise RowError(
                f"A row of the changelog has {found}, this worker reads version {SCHEMA}.",
                hint="Run the version of Switchgear that wrote it, or a newer one.",
            )
        try:
            return _decoder.decode(memoryview(data)[HEAD:])
        except msgspec.MsgspecError as error:
            raise RowError(f"A row of the changelog is damaged: {error}.") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Row)


def first_version(now: float) -> int:
    """The version before the first of a circuit that may have retired: broker time in milliseconds.

    Readers that missed its tombstone still hold an old version; that one is lower, for no circuit changes state a thousand times a
    second for as long as it lives and the idle hour after.
    """
    return int(now * 1000)


def first_mark(now: float) -> int:
    """``applied`` of such a circuit's new row: above every row of its former life by the same reason, with room for 2**20 a millisecond."""
    return int(now * 1000) << 20


def applied(data: bytes) -> bytes:
    """How far a row has come, as bytes that compare like the number."""
    return data[1:HEAD]


def describe_error(error_type: str | None, error_message: str | None, status: str) -> str:
    """``Type: message`` in one bounded line, as the record's ``last_error``."""
    kind = error_type or status
    return (f"{kind}: {error_message}" if error_message else kind)[:MAX_ERROR_LENGTH]
