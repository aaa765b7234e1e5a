"""Folding a group of batches, so that one record that fails leaves out only itself."""

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
    """Fold every record of ``work``. If the fold raises, undo the group and fold its records one by one.

    The fold itself turns a wrong message into a dead letter. The second pass is for errors that the code does not foresee.

    Args:
        fold: A fold without changes that wait to be taken.
        work: What to fold, in this order.
        store: Puts the rows of changes into the table that the fold reads.

    Returns:
        The changes, and the number of records that made the fold fail. Those are dead letters and change no row.
    """
    try:
        for method, records in work:
            method(records)
        changes = fold.take()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the second pass meets the error again, and logs it
        fold.roll_back()
        return _one_by_one(fold, work, store)
    store(changes)
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
                if not unforeseen:  # only the first of the group: there may be thousands
                    _log_failure(record, error)
                unforeseen += 1
                reason = f"the worker could not fold it ({type(error).__name__}); its log says more"
                total.dead.append(dead_letter(record, "", reason))
                continue
            store(changes)
            total.follow(changes)
    return total, unforeseen


def _log_failure(record: LogRecord, error: Exception) -> None:
    at = traceback.extract_tb(error.__traceback__)[-1]
    log.error(
        "unforeseen",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        error=repr(error)[:MAX_SHOWN],
        at=f"{Path(at.filename).name}:{at.lineno} in {at.name}",
    )
