"""A spool in a test's folder: numbered records in, and out again."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from msgspec import msgpack

from switchgear.emitter.record_batch import RecordBatch
from switchgear.emitter.spool import SUFFIX, Spool

LIMIT = 16 * 1_048_576


def opened(root: Path, limit: int = LIMIT) -> Spool:
    """Return a process's spool, with what one dead process has left."""
    spool = Spool(root, limit)
    spool.open()
    return spool


def written(*numbers: int, size: int = 0) -> list[RecordBatch]:
    """Return a record for each number, ``size`` bytes larger than its digits."""
    return [RecordBatch("tool", [b"%d" % number + b" " * size]) for number in numbers]


def acknowledge(record: RecordBatch) -> None:
    """Answer as Kafka does."""
    assert record.answer is not None
    record.answer(None)


def drained(spool: Spool, most: int = 7) -> list[tuple[int, bool]]:
    """Read and settle everything, of all dead processes too. Return each record's number and mark."""
    found = []
    while True:
        while taken := spool.read(most):
            for record in taken:
                found.append((int(record.value), record.resent))
                acknowledge(record)
        spool.progress()
        if not spool.more:
            return found
        spool.open()


def databases(root: Path) -> list[Path]:
    """Return the files, the oldest first."""

    def age(path: Path) -> float:
        return path.stat().st_mtime if path.exists() else 0.0

    return sorted(root.glob(f"*{SUFFIX}"), key=age)


def damage(path: Path) -> None:
    """Overwrite a file of events, its log included, with bytes that are not a database."""
    path.write_bytes(b"\xff" * max(8_192, path.stat().st_size))
    Path(f"{path}-wal").unlink(missing_ok=True)


def descriptors_in(root: Path) -> int:
    """Count this process's file descriptors of files below ``root``, deleted ones included.

    The descriptors of everything else in the process are not counted: they come and go while other tests' objects
    are collected.
    """
    found = 0
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - it changes while it is listed
        try:
            found += str(Path(f"/proc/self/fd/{number}").readlink()).startswith(f"{root}/")
        except FileNotFoundError:
            continue
    return found


def left_in(folder: Path) -> list[int]:
    """Return the numbers in the metadata of the events that the next processes would find."""
    return [
        int(event.value.partition(b'"number":')[2].partition(b"}")[0])
        for path in databases(folder)
        for event in events_in(path)
    ]


def events_in(path: Path) -> list[RecordBatch]:
    """Return the events in a file that no process has open, and leave it as it is."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT packed FROM events ORDER BY id").fetchall()
    return [
        RecordBatch(tool, [value], resent=sent) for (packed,) in rows for tool, value, sent in msgpack.decode(packed)
    ]
