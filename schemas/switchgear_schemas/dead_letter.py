"""Dead letters: what could not be used, with its bytes, origin and reason.

The value is the original message, byte for byte, so that it can be repaired and sent again. The key is the origin
(``topic-partition-offset``): a message that two readers reject, or one reader rejects twice, compacts to one record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

HEADER_PREFIX = "switchgear.dead."


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that a reader rejected. ``value`` None is a message without a value (a tombstone)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    component: str
    field: str = ""
    original_key: bytes | None = None
    value: bytes | None = None

    @property
    def key(self) -> bytes:
        """Identity of the rejected message."""
        return f"{self.topic}-{self.partition}-{self.offset}".encode()

    @property
    def body(self) -> bytes:
        """The original bytes; never None, which would be a tombstone in a compacted topic."""
        return self.value or b""

    def headers(self) -> list[tuple[str, bytes]]:
        """Origin and reason as Kafka headers."""
        found = [
            ("topic", self.topic.encode()),
            ("partition", b"%d" % self.partition),
            ("offset", b"%d" % self.offset),
            ("timestamp_ms", b"%d" % self.timestamp_ms),
            ("reason", self.reason.encode()),
            ("component", self.component.encode()),
            ("field", self.field.encode()),
        ]
        if self.original_key is not None:
            found.append(("original_key", self.original_key))
        if self.value is None:
            found.append(("null_value", b"1"))
        return [(HEADER_PREFIX + name, value) for name, value in found]

    @classmethod
    def from_record(cls, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> DeadLetter:
        """Read back what :meth:`headers` and :attr:`body` wrote.

        Raises:
            KeyError: a header is missing, so the record is not a dead letter of ours.
        """
        found = {name.removeprefix(HEADER_PREFIX): raw for name, raw in headers if name.startswith(HEADER_PREFIX)}
        return cls(
            topic=found["topic"].decode(),
            partition=int(found["partition"]),
            offset=int(found["offset"]),
            timestamp_ms=int(found["timestamp_ms"]),
            reason=found["reason"].decode(),
            component=found["component"].decode(),
            field=found["field"].decode(),
            original_key=found.get("original_key"),
            value=None if "null_value" in found else value,
        )
