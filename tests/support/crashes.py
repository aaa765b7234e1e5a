"""A worker that crashes at the points where the real one can."""

from __future__ import annotations

from typing import Literal

from switchgear.fleet import Changes
from switchgear.testing import MemoryWorker

CrashPoint = Literal["before_rows", "during_rows", "after_rows", "after_outputs"]
"""Where in a batch a worker crashes: before or during the rows, before the records that follow from them, or before the offset."""


def crash(worker: MemoryWorker, changes: Changes, point: CrashPoint) -> None:
    """Write as much of the changes as a worker that crashes there, perhaps after it was replaced. It then owns nothing."""
    if point == "during_rows":  # the first ones, in their order
        changes.rows = dict(list(changes.rows.items())[: len(changes.rows) // 2])
    if point != "before_rows":
        worker.write(changes, outputs=point == "after_outputs")
    worker.revoke()
