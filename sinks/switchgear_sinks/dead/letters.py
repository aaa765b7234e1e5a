"""StoredLetter: a dead letter as it lies in its topic."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from switchgear_schemas.dead_letter import DeadLetter


class _Named(msgspec.Struct):
    tool_name: str | None = None


_named: Final = msgspec.json.Decoder(_Named).decode
_LATEST_S: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """``partition`` and ``offset`` are the dead-letter topic's own, ``written_ms`` is when it was put there."""

    letter: DeadLetter
    partition: int
    offset: int
    written_ms: int

    @property
    def key(self) -> str:
        """Its identity: ``topic-partition-offset`` of the message that was rejected."""
        return self.letter.key.decode()

    @property
    def at(self) -> datetime:
        """When the message came to the topic where it was rejected, by the broker's clock.

        A topic whose producers set the time may hold any: one that no calendar has becomes the nearest that has a name.
        """
        return datetime.fromtimestamp(min(max(self.letter.timestamp_ms / 1000, 0), _LATEST_S), UTC)

    @property
    def tool(self) -> str:
        """The tool it tells of: what the bytes say, else the message's key; empty where neither can be read."""
        try:
            name = _named(self.letter.body).tool_name
        except _UNREADABLE:
            name = None
        if name is None and self.letter.original_key is not None:
            name = self.letter.original_key.decode(errors="replace")
        return name or ""

    @property
    def text(self) -> str | None:
        """The bytes as text; None where they are not UTF-8."""
        try:
            return self.letter.body.decode()
        except UnicodeDecodeError:
            return None

    @property
    def original_bytes(self) -> int:
        """Size of the rejected message's value."""
        return len(self.letter.body) if self.letter.value_bytes is None else self.letter.value_bytes

    def summary(self) -> dict[str, Any]:
        """JSON-ready values, all but the bytes. ``bytes`` is the size of the original; ``truncated``: the letter has only its beginning."""
        letter = self.letter
        return {
            "key": self.key,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "at": self.at.isoformat(),
            "tool": self.tool,
            "component": letter.component,
            "field": letter.field,
            "reason": letter.reason,
            "bytes": self.original_bytes,
            "truncated": letter.truncated,
        }

    def in_full(self) -> dict[str, Any]:
        """The summary with the bytes: ``value`` where they are text, else ``value_base64``."""
        text = self.text
        if self.letter.value is None:
            body: dict[str, Any] = {"value": None}
        elif text is None:
            body = {"value_base64": base64.b64encode(self.letter.body).decode()}
        else:
            body = {"value": text}
        original = self.letter.original_key
        if self.letter.truncated:
            body["value_sha256"] = self.letter.value_sha256
        return self.summary() | {"original_key": None if original is None else original.decode(errors="replace")} | body


def hexdump(data: bytes, limit: int = 4096) -> str:
    """Bytes that are no text, sixteen a line, with what can be read of them beside; ``limit`` bytes at most."""
    lines = []
    for start in range(0, min(len(data), limit), 16):
        part = data[start : start + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {readable}")
    if len(data) > limit:
        lines.append(f"… {len(data) - limit} more bytes")
    return "\n".join(lines)
