"""Sending dead letters: whatever size the topic takes, the reader goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, Protocol

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from switchgear_schemas.dead_letter import DeadLetter

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
    refused = await _send(producer, topic, letters)
    alone = [each for letter in refused for each in await _send(producer, topic, [letter])]
    bare = [letter.without_value() for letter in alone]
    return [each for letter in bare for each in await _send(producer, topic, [letter])]


async def _send(producer: LetterProducer, topic: str, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Those that were refused for their size, or for that of the batch they were in."""
    refused: list[DeadLetter] = []
    sent: list[tuple[DeadLetter, Awaitable[Any]]] = []
    for letter in letters:
        try:
            queued = await producer.send(topic, key=letter.key, value=letter.body, headers=letter.headers())
        except TOO_LARGE:
            refused.append(letter)
        else:
            sent.append((letter, queued))
    answers = await asyncio.gather(*[queued for _, queued in sent], return_exceptions=True)
    for (letter, _), answer in zip(sent, answers, strict=True):
        if isinstance(answer, TOO_LARGE):
            refused.append(letter)
        elif isinstance(answer, BaseException):
            raise answer
    return refused
