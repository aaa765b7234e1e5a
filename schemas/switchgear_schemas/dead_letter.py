"""Dead letters: messages that a reader refused, with their origin and the reason.

The value is the original message, byte for byte, so that you can repair it and send it again. If it is too large for the topic, the letter
keeps its beginning, its size and its SHA-256. The key is the origin (``topic-partition-offset``). A message that is refused twice compacts
to one record.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from switchgear_schemas.enums import MAX_LETTER_BYTES

HEADER_PREFIX = "switchgear.dead."
KEPT_VALUE_BYTES: Final = 65_536
"""The part kept of a value that does not fit: enough for you to see what it is."""
KEPT_KEY_BYTES: Final = 4_096
MAX_REASON_BYTES: Final = 1_000
MAX_WORD_BYTES: Final = 256
"""Limit of the topic (Kafka allows 249), the component and the field."""
_FRAME_BYTES: Final = 1_024
"""More than a record batch, a record and the names of the headers take."""
_HASHED_BYTES: Final = 19 + 64
"""A size and a SHA-256 in hexadecimal."""
_INT64: Final = 2**63


class DeadLetter(msgspec.Struct, frozen=True):
    """One message that a reader refused. ``value`` is None for a message without a value (a tombstone).

    If ``value`` is only the beginning of the original, ``value_bytes`` and ``value_sha256`` (hexadecimal) describe the original, else they
    are None. ``key_bytes`` and ``key_sha256`` do the same for the key.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    component: str
    field: str = ""
    original_key: bytes | None = None
    value: bytes | None = None
    value_bytes: int | None = None
    value_sha256: str | None = None
    key_bytes: int | None = None
    key_sha256: str | None = None

    @property
    def key(self) -> bytes:
        """The identity of the refused message."""
        return f"{self.topic}-{self.partition}-{self.offset}".encode()

    @property
    def body(self) -> bytes:
        """The kept bytes of the value. Never None, which would be a tombstone in a compacted topic."""
        return self.value or b""

    @property
    def truncated(self) -> bool:
        """Whether the value is only the beginning of the original, so that it can't be sent again."""
        return self.value_bytes is not None

    @property
    def size(self) -> int:
        """The bytes that the letter takes in its topic, at most."""
        return _FRAME_BYTES + len(self.key) + len(self.body) + sum(len(value) for _, value in self.headers())

    def truncate(self, max_bytes: int = MAX_LETTER_BYTES) -> Self:
        """Return the letter, cut so that it takes at most ``max_bytes`` in its topic.

        A long reason and a long key are cut first, then the value, to at most ``KEPT_VALUE_BYTES``. A letter without a value takes less
        than 8 KiB, so a smaller ``max_bytes`` changes nothing more. The result depends on nothing but the letter and ``max_bytes``.
        """
        letter = self._with_short_texts()
        if letter.size <= max_bytes or not letter.body:
            return letter
        room = max_bytes - letter.size + len(letter.body) - _HASHED_BYTES
        kept = letter.body[: max(0, min(room, KEPT_VALUE_BYTES))]
        size, digest = self._of_value()
        return msgspec.structs.replace(letter, value=kept, value_bytes=size, value_sha256=digest)

    def without_value(self) -> Self:
        """Return the smallest form: origin and reason, with size and hash of the value. It takes less than 8 KiB."""
        return self.truncate(0)

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the origin and the reason as Kafka headers."""
        found = [
            ("topic", self.topic.encode()),
            ("partition", b"%d" % self.partition),
            ("offset", b"%d" % self.offset),
            ("timestamp_ms", b"%d" % self.timestamp_ms),
            ("reason", _encoded(self.reason)),
            ("component", _encoded(self.component)),
            ("field", _encoded(self.field)),
        ]
        if self.original_key is not None:
            found.append(("original_key", self.original_key))
        if self.value is None:
            found.append(("null_value", b"1"))
        for name in ("value_bytes", "value_sha256", "key_bytes", "key_sha256"):
            known = getattr(self, name)
            if known is not None:
                found.append((name, str(known).encode()))
        return [(HEADER_PREFIX + name, value) for name, value in found]

    @classmethod
    def from_record(cls, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> DeadLetter:
        """Read a letter from its record, also from versions that never truncated.

        Raises:
            KeyError: A header is missing, so the record isn't one of Switchgear's dead letters.
            ValueError: A header has a wrong value.
        """
        found = {
            name.removeprefix(HEADER_PREFIX): raw or b"" for name, raw in headers if name.startswith(HEADER_PREFIX)
        }
        return cls(
            topic=found["topic"].decode(),
            partition=_number(found["partition"], 0),
            offset=_number(found["offset"], 0),
            timestamp_ms=_number(found["timestamp_ms"], -_INT64),
            reason=found["reason"].decode(),
            component=found["component"].decode(),
            field=found["field"].decode(),
            original_key=found.get("original_key"),
            value=None if "null_value" in found else value,
            value_bytes=_size(found.get("value_bytes")),
            value_sha256=_text(found.get("value_sha256")),
            key_bytes=_size(found.get("key_bytes")),
            key_sha256=_text(found.get("key_sha256")),
        )

    def _with_short_texts(self) -> Self:
        key = self.original_key
        changed: dict[str, Any] = {}
        for name, limit in (("reason", MAX_REASON_BYTES), ("component", MAX_WORD_BYTES), ("field", MAX_WORD_BYTES)):
            short = _shortened(getattr(self, name), limit)
            if short != getattr(self, name):
                changed[name] = short
        if key is not None and len(key) > KEPT_KEY_BYTES:
            known = self.key_bytes is not None  # cut before, by a version that kept more
            changed["original_key"] = key[:KEPT_KEY_BYTES]
            changed["key_bytes"] = self.key_bytes if known else len(key)
            changed["key_sha256"] = self.key_sha256 if known else hashlib.sha256(key).hexdigest()
        return msgspec.structs.replace(self, **changed) if changed else self

    def _of_value(self) -> tuple[int, str]:
        """Return the size and the hash of the original value."""
        if self.value_bytes is not None and self.value_sha256 is not None:
            return self.value_bytes, self.value_sha256
        return len(self.body), hashlib.sha256(self.body).hexdigest()


def _encoded(text: str) -> bytes:
    """Return ``text`` as UTF-8. A lone surrogate has no UTF-8 form and becomes its escape."""
    return text.encode(errors="backslashreplace")


def _shortened(text: str, limit: int) -> str:
    if len(text) * 4 <= limit:
        return text
    whole = _encoded(text)
    return text if len(whole) <= limit else whole[: limit - 3].decode(errors="ignore") + "…"


def _number(raw: bytes, lowest: int) -> int:
    if len(raw) > 20:
        raise ValueError(f"a number of {len(raw)} digits")
    number = int(raw)
    if not lowest <= number < _INT64:
        raise ValueError(f"the number {number} is out of range")
    return number


def _size(raw: bytes | None) -> int | None:
    return None if raw is None else _number(raw, 0)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()


_T = TypeVar("_T")
TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)


class LetterProducer(Protocol):
    """The part of aiokafka's producer that is used here.

    The producer must not be idempotent. aiokafka counts a refused batch in the sequence of its partition, and the broker then refuses every
    later one. A letter that is sent twice has the same key and compacts to one.
    """

    async def send(self, topic: str, **record: Any) -> Awaitable[Any]:
        """Queue a record. Awaiting the result waits until the broker has it."""
        ...


async def send_letters(producer: LetterProducer, topic: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Send dead letters, and wait for the broker. A letter that its topic refuses for its size is sent again without its value.

    Returns:
        The letters that the topic refuses even then. Log and count them.

    Raises:
        KafkaError: The broker did not acknowledge, for another reason than the size. Send all of them again.
    """

    async def queue(letter: DeadLetter) -> Awaitable[Any]:
        return await producer.send(topic, key=letter.key, value=letter.body, headers=letter.headers())

    bare = [letter.without_value() for letter in await refused_for_size(letters, queue)]
    return [each for letter in bare for each in await _refused([letter], queue)]


async def refused_for_size(items: Iterable[_T], queue: Callable[[_T], Awaitable[Awaitable[Any]]]) -> list[_T]:
    """Send all ``items``. If a batch is refused for its size, send each of its items again alone.

    Args:
        items: What to send.
        queue: Queues one item. Awaiting its result waits until the broker has it.

    Returns:
        The items that are refused even alone.

    Raises:
        KafkaError: The broker did not acknowledge, for another reason than the size.
    """
    return [each for one in await _refused(items, queue) for each in await _refused([one], queue)]


async def _refused(items: Iterable[_T], queue: Callable[[_T], Awaitable[Awaitable[Any]]]) -> list[_T]:
    refused: list[_T] = []
    sent: list[tuple[_T, Awaitable[Any]]] = []
    for item in items:
        try:
            sent.append((item, await queue(item)))
        except TOO_LARGE:
            refused.append(item)
    answers = await asyncio.gather(*[queued for _, queued in sent], return_exceptions=True)
    for (item, _), answer in zip(sent, answers, strict=True):
        if isinstance(answer, TOO_LARGE):
            refused.append(item)
        elif isinstance(answer, BaseException):
            raise answer
    return refused
