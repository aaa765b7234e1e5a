"""Messages of JSON-RPC as they came: members are told apart, and their values stay the bytes that they are.

A message that nobody changes is written as it was read. Of a changed one, all other members keep their bytes: numbers, the order of
members, and what a newer version of MCP may add.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

Raw = msgspec.Raw
Id = int | str | float | None
"""The id of a request. None in an error whose request isn't known."""

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CONNECTION_CLOSED: Final = -32000
REQUEST_TIMEOUT: Final = -32001

_NOTHING: Final[dict[str, Raw]] = {}
_VERSION: Final = Raw(b'"2.0"')
_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_list: Final = msgspec.json.Decoder(list[Raw]).decode
encoded: Final = msgspec.json.Encoder().encode
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_slow: Final = json.JSONDecoder()
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


class Message:
    """One message.

    Attributes:
        fields: Its members.
        id: The id, None if it has none.
        method: The method of a request or a notification, else None.
        refusal: Of the answer to a request that a server refused with a status of HTTP: the status, and the header
            ``WWW-Authenticate`` if it needs a login. Else None.
    """

    __slots__ = ("_line", "fields", "id", "method", "refusal")

    def __init__(self, fields: Mapping[str, Raw], line: bytes | None = None) -> None:
        self.fields = fields
        method, number = fields.get("method"), fields.get("id")
        self.method: str | None = None if method is None else _text(method)
        self.id: Id = None if number is None else _id(number)
        self.refusal: tuple[int, str | None] | None = None
        self._line = line

    @property
    def is_request(self) -> bool:
        """Whether it is a request, which wants an answer."""
        return self.method is not None and "id" in self.fields

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer: a result or an error."""
        return self.method is None

    @property
    def line(self) -> bytes:
        """The message in one line, without its end."""
        if self._line is None:
            self._line = encoded(self.fields)
        return self._line

    @property
    def params(self) -> dict[str, Raw]:
        """The members of the parameters, none if they are no object."""
        return members(self.fields.get("params"))

    @property
    def meta(self) -> dict[str, Raw]:
        """The members of ``_meta`` in the parameters."""
        return members(self.params.get("_meta"))

    def changed(self, **fields: Any) -> Message:
        """Return the message with other members, all others as they are."""
        found = Message({**self.fields, **{key: raw(value) for key, value in fields.items()}})
        found.refusal = self.refusal
        return found

    def answer(self, result: Any) -> Message:
        """Return the answer to this request."""
        return Message({"jsonrpc": _VERSION, "id": self.fields["id"], "result": raw(result)})

    def error(self, code: int, text: str, data: Any = None) -> Message:
        """Return an error as the answer to this request."""
        error = {"code": code, "message": text} | ({} if data is None else {"data": data})
        return Message({"jsonrpc": _VERSION, "id": self.fields["id"], "error": raw(error)})


def request(number: Id, method: str, params: Any = None) -> Message:
    """Return a request of the proxy itself."""
    fields = {"jsonrpc": _VERSION, "id": raw(number), "method": raw(method)}
    return Message(fields if params is None else {**fields, "params": raw(params)})


def notification(method: str, params: Any = None) -> Message:
    """Return a notification of the proxy itself."""
    fields = {"jsonrpc": _VERSION, "method": raw(method)}
    return Message(fields if params is None else {**fields, "params": raw(params)})


def parsed(data: bytes) -> list[Message]:
    """Return the message in some bytes, or those of a batch.

    Raises:
        ValueError: They are no message.
    """
    line = data.strip()
    if b"\n" in line or b"\r" in line:  # outside of texts, where they mean nothing
        line = line.translate(_LINE_ENDS)
    if line[:1] == b"[":
        return [Message(_message(bytes(each))) for each in _list(line)]
    return [Message(_message(line), line)]


def _message(line: bytes) -> dict[str, Raw]:
    fields = _fields(line)
    if not ("method" in fields or "result" in fields or "error" in fields):
        raise ValueError("It has neither a method nor a result nor an error.")
    return fields


def _fields(line: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object.

    Raises:
        ValueError: It is no object.
    """
    try:
        return _object(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return _fields_slowly(bytes(line))


def _fields_slowly(line: bytes) -> dict[str, Raw]:
    """Return the members of an object that has half a surrogate pair in a text, as JavaScript writes it when it cuts a text."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        _slow.decode(text)
        place, found = _after(text, 0, "{"), dict[str, Raw]()
        while text[place] != "}":
            key, place = _slow.raw_decode(text, place)
            begin = _after(text, place, ":")
            _, place = _slow.raw_decode(text, begin)
            found[str(key)] = Raw(text[begin:place].encode("utf-8", "surrogateescape"))
            place = _skip(text, place)
            if text[place] == ",":
                place = _skip(text, place + 1)
    except (IndexError, RecursionError) as error:
        raise ValueError(f"It can't be read: {error}") from None
    return found


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _after(text: str, place: int, mark: str) -> int:
    place = _skip(text, place)
    if text[place] != mark:
        raise ValueError(f"It has no {mark} at {place}.")
    return _skip(text, place + 1)


def members(value: Raw | None) -> dict[str, Raw]:
    """Return the members of a value, none if it is no object."""
    if value is None:
        return _NOTHING
    try:
        return _fields(value)
    except ValueError:
        return _NOTHING


def elements(value: Raw | None) -> list[Raw] | None:
    """Return the elements of a value, None if it is no list."""
    try:
        return None if value is None else _list(value)
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:
        found = plain(value)
        return [raw(each) for each in found] if isinstance(found, list) else None


def plain(value: Raw | None) -> Any:
    """Return a value as Python has it, None if there is none or it can't be read."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        try:
            return json.loads(bytes(value).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None


def raw(value: Any) -> Raw:
    """Return a value as bytes of JSON."""
    if isinstance(value, Raw):
        return value
    try:
        return Raw(encoded(value))
    except UnicodeEncodeError:  # half a surrogate pair
        return Raw(json.dumps(value).encode())


def with_members(value: Raw | None, **changes: Any) -> Raw:
    """Return an object with other members, all others as they are."""
    return Raw(encoded({**members(value), **{key: raw(each) for key, each in changes.items()}}))


def _text(value: Raw) -> str:
    found = plain(value)
    return found if isinstance(found, str) else ""


def _id(value: Raw) -> Id:
    found = plain(value)
    return found if isinstance(found, int | str | float) else None
