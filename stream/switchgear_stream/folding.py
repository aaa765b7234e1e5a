"""Folding: a group of batches at once; where a record makes the fold fail, one by one, so that it alone is left out."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from switchgear.fleet import Changes, FleetFold, LogRecord
from switchgear.fleet.log import dead_letter

log = structlog.get_logger()
MAX_SHOWN: Final = 500
Work = tuple[Callable[[Iterable[LogRecord]], None], Sequence[LogRecord]]
"""A method of the fold, and the records for it."""


def fold_all(fold: FleetFold, work: Sequence[Work], store: Callable[[Changes], None]) -> tuple[Changes, int]:
    """Fold every record of ``work``. What is wrong with a message the fold says itself; this is for errors that the code does not foresee.

    Args:
        fold: with nothing untaken.
        work: in the order in which to fold.
        store: puts the rows of changes into the table that the fold reads.

    Returns:
        What came of all of it, and how many records made the fold fail: they are dead letters, and changed no row.
    """
    try:
        for method, records in work:
            method(records)
        changes = fold.take()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - found again below, and logged there
        fold.roll_back()
        return _one_by_one(fold, work, store)
    store(changes)
    fold.settle()
    return changes, 0


def _one_by_one(fold: FleetFold, work: Sequence[Work], store: Callable[[Changes], None]) -> tuple[Changes, int]:
    total, unforeseen = Changes(), 0
    for method, records in work:
        for record in records:
            try:
                method([record])
                changes = fold.take()
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the next record must be folded
                fold.roll_back()
                if not unforeseen:  # the first of the group: there may be thousands
                    _report(record, error)
                unforeseen += 1
                reason = f"the worker could not fold it ({type(error).__name__}); its log says more"
                total.dead.append(dead_letter(record, "", reason))
                continue
            store(changes)
            fold.settle()
            total.follow(changes)
    return total, unforeseen


def _report(record: LogRecord, error: Exception) -> None:
    at = traceback.extract_tb(error.__traceback__)[-1]
    log.error(
        "unforeseen",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        error=repr(error)[:MAX_SHOWN],
        at=f"{Path(at.filename).name}:{at.lineno} in {at.name}",
    )
