"""Dead letters as they are stored in their topic, and the selection of some of them."""

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
    """A dead letter with its place in the dead-letter topic.

    Args:
        letter: The rejected message and the reason.
        partition: Of the dead-letter topic.
        offset: Of the dead-letter topic.
        written_ms: When the letter was written to the dead-letter topic.
    """

    letter: DeadLetter
    partition: int
    offset: int
    written_ms: int

    @property
    def key(self) -> str:
        """The identity of the letter: ``topic-partition-offset`` of the rejected message."""
        return self.letter.key.decode()

    @property
    def at(self) -> datetime:
        """When the rejected message arrived in its topic, by the broker's clock.

        In a topic whose producers set the time it may be any number. One outside the calendar becomes the nearest date inside.
        """
        return _date(self.letter.timestamp_ms)

    @property
    def written_at(self) -> datetime:
        """When the letter was written to the dead-letter topic, by the broker's clock, as for :attr:`at`."""
        return _date(self.written_ms)

    @property
    def tool(self) -> str:
        """The tool: the name in the bytes, or else the message's key; empty if neither can be read."""
        try:
            name = _named(self.letter.body).tool_name
        except _UNREADABLE:
            name = None
        if name is None and self.letter.original_key is not None:
            name = self.letter.original_key.decode(errors="replace")
        return name or ""

    @property
    def text(self) -> str | None:
        """The bytes as text; None if they are not UTF-8."""
        try:
            return self.letter.body.decode()
        except UnicodeDecodeError:
            return None

    @property
    def original_bytes(self) -> int:
        """Size of the rejected message's value."""
        return len(self.letter.body) if self.letter.value_bytes is None else self.letter.value_bytes

    def summary(self) -> dict[str, Any]:
        """Return everything but the bytes, JSON-ready.

        ``bytes`` is the size of the original. With ``truncated``, the letter has only its beginning.
        """
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
        """Return the summary with the bytes: ``value`` if they are text, else ``value_base64``."""
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


@dataclass(frozen=True, slots=True)
class Selection:
    """Criteria for dead letters. A letter has to meet every one that is given; None means any.

    Args:
        reason: Part of the reason, in upper or lower case.
        component: Who rejected the message: ``worker`` or ``sink``.
        tool: Name of the tool.
        field: Name of the field that the reason is about.
        since: Messages that arrived at or after this time.
        place: Partition and offset in the dead-letter topic: one letter. If it was written again since, the newer copy.
    """

    reason: str | None = None
    component: str | None = None
    tool: str | None = None
    field: str | None = None
    since: datetime | None = None
    place: tuple[int, int] | None = None

    def matches(self, stored: StoredLetter) -> bool:
        """Return whether ``stored`` meets every criterion."""
        letter = stored.letter
        return (
            (self.reason is None or self.reason.casefold() in letter.reason.casefold())
            and (self.component is None or self.component == letter.component)
            and (self.field is None or self.field == letter.field)
            and (self.since is None or stored.at >= self.since)
            and (self.place is None or self.place == (stored.partition, stored.offset))
            and (self.tool is None or self.tool == stored.tool)
        )


def _date(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(timestamp_ms / 1000, 0), _LATEST_S), UTC)


def hexdump(data: bytes, limit: int = 4096) -> str:
    """Return bytes as lines of sixteen, each with its readable characters; at most ``limit`` bytes."""
    lines = []
    for start in range(0, min(len(data), limit), 16):
        part = data[start : start + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {readable}")
    if len(data) > limit:
        lines.append(f"… {len(data) - limit} more bytes")
    return "\n".join(lines)
