"""The circuits of the fleet and their last changes, as bytes that all clients share."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from switchgear.follower.table import CircuitRecord
from switchgear_http.visibility import Sight
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.enums import CircuitScope

MAX_CHANGES: Final = 8_192
"""Changes in memory. A client that is further behind gets a snapshot."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of their records."""
_MOST_OFFSETS: Final = 1_024
_LONGEST_CURSOR: Final = 32 * _MOST_OFFSETS


class _Head(msgspec.Struct):
    circuit_id: str
    tool_name: str
    scope: CircuitScope = "tool"


class Change:
    """One record of a circuit, or its removal.

    Attributes:
        circuit_id: The circuit.
        tool: Name of the tool. Of a family's circuit: the family.
        scope: What the circuit is for.
        whose: The tenant, if the circuit is for one.
        partition, offset, timestamp: The record's place in the topic, and when the broker wrote it, in milliseconds.
        name: The circuit's id in JSON.
        json: The record in one line; None if the circuit is removed.
        cursor: The id of the event: a client that has it knows this change and all before.
    """

    __slots__ = (
        "_event",
        "circuit_id",
        "cursor",
        "json",
        "name",
        "offset",
        "partition",
        "scope",
        "timestamp",
        "tool",
        "whose",
    )

    def __init__(self, record: CircuitRecord) -> None:
        self.partition, self.offset, self.timestamp = record.partition, record.offset, record.timestamp
        self.cursor = ""
        self._event: bytes | None = None
        if record.value is None:
            self.json: bytes | None = None
            self.circuit_id = (record.key or b"").decode(errors="replace")
            said = read_circuit_id(self.circuit_id)
            self.tool, self.scope = said.name, said.scope
        else:
            head = msgspec.json.decode(record.value, type=_Head)
            self.circuit_id, self.tool, self.scope = head.circuit_id, head.tool_name, head.scope
            # A line of an event ends at a line feed, and not every writer writes JSON in one line.
            self.json = msgspec.json.format(record.value.decode(), indent=-1).encode()
        self.whose = read_circuit_id(self.circuit_id).whose if self.scope == "tenant" else ""
        self.name = msgspec.json.encode(self.circuit_id)

    def data(self, reader: Sight | None) -> bytes:
        """Return the record, or what tells that it is removed.

        Args:
            reader: What a client of one tenant sees of it. None: all.
        """
        if self.json is None:
            return msgspec.json.encode({"circuit_id": self.circuit_id, "removed": True})
        if reader is None:
            return self.json
        fields: dict[str, Any] = msgspec.json.decode(self.json)
        return msgspec.json.encode(reader.seen(fields))

    def event(self, reader: Sight | None) -> bytes:
        """Return the server-sent event. It is encoded once for all clients that see the whole record."""
        if reader is not None:
            return self._encoded(reader, self.cursor)
        if self._event is None:
            self._event = self._encoded(None, self.cursor)
        return self._event

    def current(self, reader: Sight | None, cursor: str) -> bytes:
        """Return the event for a client that knows all changes up to a cursor, and now sees this circuit, too."""
        return self._encoded(reader, cursor)

    def _encoded(self, reader: Sight | None, cursor: str) -> bytes:
        return b"id: %s\nevent: circuit\ndata: %s\n\n" % (cursor.encode(), self.data(reader))


class CircuitChanges:
    """The last record of every circuit, and the last changes in the order in which they were read.

    Every change has a number; the first one has 0. A cursor names the last change of each partition by its offset, so gateways that
    read the same topic agree on it, and a client may resume at another gateway. Its checksum covers the times of these records. After
    the topic was created again, old cursors therefore don't fit.

    Args:
        max_changes: Changes in memory.
        max_bytes: Bytes of their records.
    """

    def __init__(self, max_changes: int = MAX_CHANGES, max_bytes: int = MAX_BYTES) -> None:
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self._changes: list[Change] = []
        self._start = 0
        self._bytes = 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._forgotten: dict[int, Change] = {}  # the last one of each partition that is not in memory any more
        self._last: dict[int, Change] = {}
        self._offsets: dict[int, str] = {}
        self._check = 0
        self.records: dict[str, Change] = {}
        """By circuit id. Only read it."""
        self.cursor = _text({}, 0)
        """Names the last change."""

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self._start + len(self._changes)

    def add(self, record: CircuitRecord) -> Change:
        """Take the next record of a partition.

        Raises:
            msgspec.DecodeError: It is not a circuit.
            UnicodeDecodeError: It is not text.
        """
        change = Change(record)
        before = self._last.get(change.partition)
        self._check ^= _checksum(change) ^ (0 if before is None else _checksum(before))
        self._last[change.partition] = change
        self._offsets[change.partition] = f"{change.partition:x}.{change.offset:x}"
        self.cursor = change.cursor = _text(self._offsets, self._check)
        if change.json is None:
            self.records.pop(change.circuit_id, None)
        else:
            self.records[change.circuit_id] = change
        self._numbers[change.partition, change.offset] = self.end
        self._changes.append(change)
        self._bytes += len(change.json or b"")
        if len(self._changes) > self._max_changes or self._bytes > self._max_bytes:
            self._forget(1 + len(self._changes) // 8)
        return change

    def since(self, number: int) -> Sequence[Change] | None:
        """Return the changes from this number on, or None if they are not in memory any more."""
        return self._changes[number - self._start :] if number >= self._start else None

    def after(self, cursor: str) -> Sequence[Change] | None:
        """Return the changes that a client with this cursor doesn't have. None if that is not known: it needs a snapshot."""
        parsed = _parsed(cursor)
        if parsed is None or not self._forgotten.keys() <= parsed[0].keys():
            return None
        offsets, check = parsed
        start = self.end
        for partition, offset in offsets.items():
            number = self._numbers.get((partition, offset))
            forgotten = self._forgotten.get(partition)
            if number is not None:
                change = self._changes[number - self._start]
            elif forgotten is not None and forgotten.offset == offset:
                change, number = forgotten, self._start - 1
            else:
                return None
            check ^= _checksum(change)
            if offset != self._last[partition].offset:
                start = min(start, number + 1)
        if check:
            return None
        if self._last.keys() - offsets.keys():
            start = self._start
        return [each for each in self._changes[start - self._start :] if each.offset > offsets.get(each.partition, -1)]

    def _forget(self, count: int) -> None:
        for change in self._changes[:count]:
            self._forgotten[change.partition] = change
            self._bytes -= len(change.json or b"")
            del self._numbers[change.partition, change.offset]
        del self._changes[:count]
        self._start += count


def pieces(events: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes in pieces of about ``size``, so that no client has more than that in memory."""
    waiting: list[bytes] = []
    length = 0
    for event in events:
        waiting.append(event)
        length += len(event)
        if length >= size:
            yield b"".join(waiting)
            waiting.clear()
            length = 0
    if waiting:
        yield b"".join(waiting)


def _checksum(change: Change) -> int:
    return zlib.crc32(b"%d.%d.%d" % (change.partition, change.offset, change.timestamp))


def _text(offsets: dict[int, str], check: int) -> str:
    return f"{'~'.join(offsets[each] for each in sorted(offsets))}-{check:08x}"


def _parsed(cursor: str) -> tuple[dict[int, int], int] | None:
    """Return the offsets by partition and the checksum, or None if this is not a cursor."""
    places, dash, check = cursor.rpartition("-")
    named = places.split("~") if places else []
    if not dash or len(check) != 8 or len(cursor) > _LONGEST_CURSOR or len(named) > _MOST_OFFSETS:
        return None
    try:
        pairs = (each.split(".") for each in named)
        return {int(partition, 16): int(offset, 16) for partition, offset in pairs}, int(check, 16)
    except ValueError:
        return None
