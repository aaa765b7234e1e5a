"""Records that a caller submits together, on their way to the sender, and the receipt of their answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from switchgear.emitter.record_batch import RecordBatch, RunAnswer
from switchgear.emitter.status import Receipt


class Submission:
    """Collects the answers to ``(tool, bytes)`` records. Make it in the event loop of the sender.

    Attributes:
        receipt: The answers so far.
        done: Done when every record has its answer.
    """

    def __init__(self, records: Sequence[tuple[str, bytes]]) -> None:
        self._records = records
        self.receipt = Receipt(len(records))
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def batches(self, first: int, end: int) -> list[RecordBatch]:
        """Return the records from the place ``first`` up to ``end`` as batches of one tool each, in the order of each tool."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place in range(first, min(end, len(self._records))):
            places[self._records[place][0]].append(place)
        return [
            RecordBatch(tool, [self._records[place][1] for place in some], _PartAnswer(self, some))
            for tool, some in places.items()
        ]

    def answer(self, places: Sequence[int], reason: str | None) -> None:
        """Take the answer for some records."""
        receipt = self.receipt
        if reason is None:
            receipt.acknowledged += len(places)
        else:
            receipt.refused += [(place, reason) for place in places]
        if receipt.complete and not self.done.done():
            self.done.set_result(None)


class _PartAnswer(RunAnswer):
    """Takes the answer for records of one tool."""

    __slots__ = ("_places", "_submission")

    def __init__(self, submission: Submission, places: Sequence[int]) -> None:
        self._submission = submission
        self._places = places

    def __call__(self, reason: str | None) -> None:
        self._submission.answer(self._places, reason)

    def part(self, first: int, count: int) -> _PartAnswer:
        return _PartAnswer(self._submission, self._places[first : first + count])
