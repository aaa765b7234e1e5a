"""A spool in a test's folder: numbered records in, and out again."""

from __future__ import annotations

import os
from pathlib import Path

from switchgear.emitter.spool.segment import SUFFIX
from switchgear.emitter.spool.spool import Spool, Written

LIMIT = 1_000_000


def opened(root: Path, limit: int = LIMIT) -> Spool:
    """A process's spool, with what the dead have left."""
    spool = Spool(root, limit)
    spool.open()
    return spool


def written(*numbers: int, size: int = 0) -> list[Written]:
    """A record of each number, ``size`` bytes larger than it."""
    return [Written(b"tool", b"%d" % number + b" " * size, sent=False) for number in numbers]


def drained(spool: Spool) -> list[tuple[int, bool]]:
    """Every unread record's number and mark; all are settled."""
    found = []
    while taken := spool.read(7):
        for each in taken:
            found.append((int(each.value), each.sent))
            each.place.settle()
    spool.progress()
    return found


def killed(spool: Spool) -> None:
    """As ``kill -9`` leaves it: the system closes the files and takes the lock back; nothing else happens."""
    spool.forked()


def segments(root: Path) -> list[Path]:
    """The files, in the order of writing."""
    return sorted(root.glob(f"*/*{SUFFIX}"))


def descriptors_in(root: Path) -> int:
    """How many of this process's file descriptors are of files below ``root``, deleted ones included.

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
    """The numbers in the metadata of the events that the next process would find."""
    spool = opened(folder, 16 * 1_048_576)
    found = [each for taken in iter(lambda: spool.read(1_000), []) for each in taken]
    spool.forked()
    return [int(each.value.partition(b'"number":')[2].partition(b"}")[0]) for each in found]
