"""Cut a request of OTLP into small requests before any of it is decoded.

Of two bytes protobuf makes 170, and of a minimal span a tool call takes 3 kB. So a large request is never decoded as a whole. Its parts
are requests of the same kind, with some records each, and with the resource and the scope of these records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from switchgear_gateway.bodies import without_bom
from switchgear_http.json_cost import commas_in
from switchgear_schemas.errors import SwitchgearError

Encoding = Literal["protobuf", "json"]
MAX_RECORDS: Final = 20_000
"""Spans or log records in one request, and as many resources and scopes. Exporters send at most a few thousand."""
PART_BYTES: Final = 8_192
"""A part with more has one record, or a large resource. Reading a part takes a few milliseconds."""
MAX_HEAD_BYTES: Final = 65_536
"""A resource with its scope. Each part has it again."""
_PATH: Final = (1, 2, 2)
"""The fields that lead to the records in protobuf: of the request, a resource, and a scope. They are the same for spans and logs."""
_MAX_FIELDS: Final = 4 * MAX_RECORDS
"""Fields above the records. Most of them are the records."""
_LOOK_EVERY: Final = 2_000
_COMMAS: Final = 50_000
_BYTES_PER_COMMA: Final = 8
"""Each value of a list takes 64 bytes until it is decoded."""
_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_EMPTY: Final = Raw()


class UnreadableBodyError(SwitchgearError):
    """A body isn't what its headers say. The same request must not be sent again."""


class TooManyRecordsError(UnreadableBodyError):
    """A body has more records, or more in a record, than one request may have."""


def parts_of(body: bytes, encoding: Encoding) -> Iterator[bytes | None]:
    """Yield the parts of a request, and None where its reader may pause. A small request is its only part.

    Raises:
        UnreadableBodyError: The request isn't protobuf or JSON, as far as that shows above the records.
        TooManyRecordsError: It has more than :data:`MAX_RECORDS`, or more than can be read at bounded cost.
    """
    if len(body) <= PART_BYTES:
        return iter([body])
    return _protobuf_parts(body) if encoding == "protobuf" else _json_parts(body)


def too_many_records() -> TooManyRecordsError:
    """Return the error of a request with too many records."""
    return TooManyRecordsError(
        f"The body has more than {MAX_RECORDS:,} spans or log records.", hint="Let the exporter send smaller batches."
    )


# -- protobuf ----------------------------------------------------------------------------------------------------------

Place = tuple[int, int, int, int]
"""A field: its number (0 for a number or another value of fixed size), where it begins, where its content begins, and where it ends."""


def fields_in(body: bytes, at: int, end: int) -> Iterator[Place]:
    """Yield the fields of a protobuf message, without those of the messages in it.

    Raises:
        UnreadableBodyError: It isn't a message.
    """
    while at < end:
        begin = at
        tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == _LEN:
            size, at = _varint(body, at, end)
            yield (tag >> 3 if size <= end - at else -1), begin, at, at + size
            at += size
        elif kind == _VARINT:
            _, at = _varint(body, at, end)
            yield 0, begin, at, at
        elif kind in {_I64, _I32}:
            at += 8 if kind == _I64 else 4
            yield 0, begin, at, at
        else:
            at = end + 1
        if at > end:
            raise UnreadableBodyError("The body isn't a request in protobuf: a field is cut off.")


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    found = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
    raise UnreadableBodyError("The body isn't a request in protobuf: a number is cut off.")


def _protobuf_parts(body: bytes) -> Iterator[bytes | None]:
    yield from _checked(body)
    for number, _, at, end in fields_in(body, 0, len(body)):
        if number == _PATH[0]:
            resource = _head(body, at, end, _PATH[1])
            for some in _gathered(_protobuf_scopes(body, at, end, len(resource)), PART_BYTES + len(resource)):
                yield b"".join((_tag(_PATH[0], len(resource) + sum(map(len, some))), resource, *some))


def _protobuf_scopes(body: bytes, at: int, end: int, also: int) -> Iterator[bytes]:
    """Yield the scopes of a resource, each with some of its records. ``also`` is the size of the resource."""
    for number, _, begin, stop in fields_in(body, at, end):
        if number == _PATH[1]:
            head = _head(body, begin, stop, _PATH[2], also)
            records = (body[first:last] for found, first, _, last in fields_in(body, begin, stop) if found == _PATH[2])
            for some in _gathered(records, PART_BYTES + len(head)):
                yield b"".join((_tag(_PATH[1], len(head) + sum(map(len, some))), head, *some))


def _checked(body: bytes) -> Iterator[None]:
    """Count the resources, scopes and records, before any is made. Yield now and then.

    Raises:
        TooManyRecordsError: There are too many.
    """
    counts, seen = [0] * len(_PATH), 0
    places = [fields_in(body, 0, len(body))]
    while places:
        place = next(places[-1], None)
        if place is None:
            places.pop()
            continue
        seen += 1
        level = len(places) - 1
        if place[0] == _PATH[level]:
            counts[level] += 1
            if len(places) < len(_PATH):
                places.append(fields_in(body, place[2], place[3]))
        if counts[level] > MAX_RECORDS or seen > _MAX_FIELDS:
            raise too_many_records()
        if seen % _LOOK_EVERY == 0:
            yield None


def _head(body: bytes, at: int, end: int, nested: int, also: int = 0) -> bytes:
    """Return all fields of a message but one. A message that is given twice is the merged one, in protobuf and here."""
    found = [body[begin:ends] for number, begin, _, ends in fields_in(body, at, end) if number != nested]
    _check_head(sum(map(len, found)) + also)
    return b"".join(found)


def _tag(number: int, size: int) -> bytes:
    """Return what stands before the content of a field."""
    found = bytearray([number << 3 | _LEN])
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    found.append(size)
    return bytes(found)


# -- JSON --------------------------------------------------------------------------------------------------------------


class _Scope(msgspec.Struct, gc=False):
    scope: Raw = _EMPTY
    spans: list[Raw] | None = None
    logRecords: list[Raw] | None = None  # noqa: N815 - OTLP's name
    log_records: list[Raw] | None = None


class _Resource(msgspec.Struct, gc=False):
    resource: Raw = _EMPTY
    scopeSpans: list[_Scope] | None = None  # noqa: N815
    scope_spans: list[_Scope] | None = None
    scopeLogs: list[_Scope] | None = None  # noqa: N815
    scope_logs: list[_Scope] | None = None


class _Request(msgspec.Struct, gc=False):
    resourceSpans: list[_Resource] | None = None  # noqa: N815
    resource_spans: list[_Resource] | None = None
    resourceLogs: list[_Resource] | None = None  # noqa: N815
    resource_logs: list[_Resource] | None = None


_request: Final = msgspec.json.Decoder(_Request).decode
_RECORDS: Final = {"Spans": ("spans",), "Logs": ("logRecords", "log_records")}
_JSON_PART: Final = {
    "Spans": b'{"resourceSpans":[{%b"scopeSpans":[%b]}]}',
    "Logs": b'{"resourceLogs":[{%b"scopeLogs":[%b]}]}',
}
_JSON_SCOPE: Final = {"Spans": b'{%b"spans":[%b]}', "Logs": b'{%b"logRecords":[%b]}'}


def _json_parts(body: bytes) -> Iterator[bytes | None]:
    most = max(_COMMAS, len(body) // _BYTES_PER_COMMA)
    if body.count(b",") > most and commas_in(body) > most:
        raise TooManyRecordsError(
            "The body has too many values for its size.", hint="Let the exporter send smaller batches, or protobuf."
        )
    yield None
    try:
        given = _request(without_bom(body))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableBodyError(f"The body isn't a request in json: {str(error)[:200]}.") from None
    yield None
    yield from _check_numbers(given)
    for kind in _RECORDS:
        for resource in _all(given, f"resource{kind}", f"resource_{kind.lower()}"):
            head = _json_head(resource.resource, b"resource")
            for some in _gathered(_json_scopes(resource, kind, len(head)), PART_BYTES + len(head)):
                yield _JSON_PART[kind] % (head, b",".join(some))


def _json_scopes(resource: _Resource, kind: str, also: int) -> Iterator[bytes]:
    """Yield the scopes of a resource, each with some of its records. ``also`` is the size of the resource."""
    for scope in _all(resource, f"scope{kind}", f"scope_{kind.lower()}"):
        head = _json_head(scope.scope, b"scope")
        _check_head(len(head) + also)
        for some in _gathered(map(bytes, _all(scope, *_RECORDS[kind])), PART_BYTES + len(head)):
            yield _JSON_SCOPE[kind] % (head, b",".join(some))


def _check_numbers(given: _Request) -> Iterator[None]:
    """Count the resources, scopes and records. Yield now and then.

    Raises:
        TooManyRecordsError: There are too many.
    """
    for kind in _RECORDS:
        resources = _all(given, f"resource{kind}", f"resource_{kind.lower()}")
        scopes = records = 0
        for resource in resources:
            for scope in _all(resource, f"scope{kind}", f"scope_{kind.lower()}"):
                scopes += 1
                records += len(_all(scope, *_RECORDS[kind]))
                if scopes % _LOOK_EVERY == 0:
                    yield None
            if max(len(resources), scopes, records) > MAX_RECORDS:
                raise too_many_records()


def _all(given: msgspec.Struct, *names: str) -> list[Any]:
    """Return what a request has under its two names: OTLP's and protobuf's."""
    return [each for name in names for each in getattr(given, name) or ()]


def _json_head(raw: Raw, name: bytes) -> bytes:
    content = bytes(raw)
    return b'"%s":%s,' % (name, content) if content else b""


# -- both --------------------------------------------------------------------------------------------------------------


def _gathered(records: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield records together, up to a size. One that is larger is alone."""
    some: list[bytes] = []
    size = 0
    for record in records:
        if some and size + len(record) > most:
            yield some
            some, size = [], 0
        some.append(record)
        size += len(record)
    if some:
        yield some


def _check_head(size: int) -> None:
    if size > MAX_HEAD_BYTES:
        raise TooManyRecordsError(
            f"A resource with its scope has {size:,} bytes, more than {MAX_HEAD_BYTES:,}.",
            hint="Give the resource fewer or shorter attributes.",
        )
