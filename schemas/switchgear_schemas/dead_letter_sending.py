"""Sending dead letters: whatever size the topic takes, the reader goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from switchgear_schemas.dead_letter import DeadLetter

_T = TypeVar("_T")
TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)


class LetterProducer(Protocol):
    """What is used of aiokafka's producer.

    It must not be idempotent: aiokafka counts a refused batch in the sequence of its partition, and the broker then refuses every
    later one. A letter that goes out twice has the same key and compacts to one.
    """

    async def send(self, topic: str, **record: Any) -> Awaitable[Any]:
        """Queue a record; what is returned is done when the broker has it."""
        ...


async def send_letters(producer: LetterProducer, topic: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Return when the broker has all of them, as they are or, where the topic takes less than Switchgear's own, without the value.

    Returns:
        Those that the topic refuses for their size even so. Log and count them, and go on: nothing else can be kept of them.

    Raises:
        KafkaError: the broker did not acknowledge for another reason than the size. Send them again.
    """

    async def queue(letter: DeadLetter) -> Awaitable[Any]:
        return await producer.send(topic, key=letter.key, value=letter.body, headers=letter.headers())

    bare = [letter.without_value() for letter in await refused_for_size(letters, queue)]
    return [each for letter in bare for each in await _refused([letter], queue)]


async def refused_for_size(items: Iterable[_T], queue: Callable[[_T], Awaitable[Awaitable[Any]]]) -> list[_T]:
    """Send all of them; each one that is refused with the batch it was in is sent again alone.

    Args:
        items: What to send.
        queue: Queues one; what it returns is done when the broker has it.

    Returns:
        Those that are refused alone, too.

    Raises:
        KafkaError: the broker did not acknowledge for another reason than the size.
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
