"""Delivery: encoded executions for someone who waits for the broker's answer to each."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Final

from switchgear.emitter.outbox import Outbox
from switchgear.emitter.receipt import Receipt
from switchgear.emitter.record import Record
from switchgear_schemas.errors import SwitchgearError

_POLL_S: Final = 0.005


async def deliver(
    records: Sequence[tuple[str, bytes]], present: Callable[[], Outbox | None], in_flight: int, sent: Callable[[], None]
) -> Receipt:
    """Offer ``(tool, bytes)`` each to the outbox as there is room; the receipt has the answer to every one.

    Args:
        records: in the order in which each tool's go.
        present: the emitter's outbox. None while the background thread starts.
        in_flight: most records that may wait or be in flight.
        sent: called for each that is offered.

    Raises:
        SwitchgearError: the outbox ended before all were answered.
    """
    while (outbox := present()) is None:  # noqa: ASYNC110 - it takes a moment, once
        await asyncio.sleep(_POLL_S)
    receipt = Receipt(len(records))
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(index: int, reason: str | None) -> None:
        if reason is None:
            receipt.acknowledged += 1
        else:
            receipt.refused.append((index, reason))
        if receipt.complete and not done.done():
            done.set_result(None)

    try:
        for index, (tool, value) in enumerate(records):
            if outbox.pending >= in_flight or not outbox.connected:
                await outbox.room()
            sent()
            outbox.offer((Record(tool, value, functools.partial(answer, index)),))
        if records:
            await done
    except asyncio.CancelledError:
        raise SwitchgearError("The emitter was closed before Kafka acknowledged every record.") from None
    return receipt
