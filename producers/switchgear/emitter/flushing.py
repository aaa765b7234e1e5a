"""Flushing: waiting for what was emitted before, while others go on emitting."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Protocol

from switchgear.emitter.buffer import Buffer
from switchgear.emitter.lane import Mark
from switchgear.emitter.status import EmitterStatus

_POLL_S: Final = 0.005


class Flushed(Protocol):
    """What is asked of the emitter."""

    @property
    def ended(self) -> bool | None:
        """Whether every event was answered when it was closed; None while it is open."""

    def status(self) -> EmitterStatus:
        """As of now."""


def flushed(
    emitter: Flushed,
    buffer: Buffer,
    hurry: Callable[[], None],
    mark: Callable[[], Future[Mark] | None],
    hopeless: Callable[[], bool],
    timeout: float,
) -> bool:
    """Wait until everything that is in ``buffer`` now, or was before, has its answer. Not for event loops.

    Args:
        emitter: whose.
        buffer: of the emitter.
        hurry: has it send at once.
        mark: what its outbox holds, taken in its loop; None where that is not all that left the buffer.
        hopeless: whether to stop waiting before the time is over.
        timeout: seconds.

    Returns:
        False when ``timeout`` seconds did not suffice, or the emitter was closed, by whomever, before all had its answer.
    """
    deadline = time.monotonic() + timeout
    last = buffer.accepted
    marked: Future[Mark] | None = None
    while (status := emitter.status()).buffered or status.spooled:
        if emitter.ended is not None:
            return emitter.ended
        hurry()
        if marked is None and not status.spooled and buffer.left >= last:
            marked = mark()
        if marked is not None and marked.done() and not marked.exception() and marked.result().answered:
            return True
        if time.monotonic() >= deadline or hopeless():
            return False
        time.sleep(_POLL_S)
    return emitter.ended is not False  # a closed one has nothing left to wait for, lost events neither
