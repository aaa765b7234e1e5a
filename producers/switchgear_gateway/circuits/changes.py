"""The circuits of the fleet and their last changes, as bytes that all clients share."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from switchgear.follower.table import CircuitRecord
from switchgear_http.event_stream import EventLog, event_text
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


_decode_head: Final = msgspec.json.Decoder(_Head).decode


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
        number: Its number in the log of changes.
        cursor: The id of the event: a client that has it knows this change and all before.
    """

    __slots__ = (
        "_event",
        "circuit_id",
        "cursor",
        "json",
        "name",
        "number",
        "offset",
        "partition",
        "scope",
        "timestamp",
        "tool",
        "whose",
    )

    def __init__(self, record: CircuitRecord) -> None:
        self.partition, self.offset, self.timestamp = record.partition, record.offset, record.timestamp
        self.cursor, self.number = "", 0
        self._event: bytes | None = None
        if record.value is None:
            self.json: bytes | None = None
            self.circuit_id = (record.key or b"").decode(errors="replace")
            said = read_circuit_id(self.circuit_id)
            self.tool, self.scope = said.name, said.scope
        else:
            head = _decode_head(record.value)
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
        return event_text(cursor, "circuit", self.data(reader))


class CircuitChanges:
    """The last record of every circuit, and the last changes in the order in which they were read.

    A cursor names the last change of each partition by its offset, so gateways that
    read the same topic agree on it, and a client may resume at another gateway. Its checksum covers the times of these records. After
    the topic was created again, old cursors therefore don't fit.

    Args:
        max_changes: Changes in memory.
        max_bytes: Bytes of their records.
    """

    def __init__(self, max_changes: int = MAX_CHANGES, max_bytes: int = MAX_BYTES) -> None:
        self.log = EventLog[Change](max_changes, max_bytes, lambda change: len(change.json or b""))
        """The last changes."""
        self._known: dict[tuple[int, int], Change] = {}  # those in memory, by place
        self._forgotten: dict[int, Change] = {}  # the last one of each partition that is not in memory any more
        self._last: dict[int, Change] = {}
        self._offsets: dict[int, str] = {}
        self._check = 0
        self.records: dict[str, Change] = {}
        """By circuit id. Only read it."""
        self.cursor = _text({}, 0)
        """Names the last change."""

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
        change.number = self.log.end
        self._known[change.partition, change.offset] = change
        for each in self.log.add(change):
            self._forgotten[each.partition] = each
            del self._known[each.partition, each.offset]
        return change

    def after(self, cursor: str) -> Sequence[Change] | None:
        """Return the changes that a client with this cursor doesn't have. None if that is not known: it needs a snapshot."""
        parsed = _parsed(cursor)
        if parsed is None or not self._forgotten.keys() <= parsed[0].keys():
            return None
        offsets, check = parsed
        start, newest = self.log.start, self.log.end
        for partition, offset in offsets.items():
            change = self._known.get((partition, offset)) or self._forgotten.get(partition)
            if change is None or change.offset != offset:
                return None
            check ^= _checksum(change)
            if change is not self._last[partition]:
                newest = min(newest, max(start, change.number + 1))
        if check:
            return None
        if self._last.keys() - offsets.keys():
            newest = start
        later = self.log.since(newest) or ()
        return [each for each in later if each.offset > offsets.get(each.partition, -1)]


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
