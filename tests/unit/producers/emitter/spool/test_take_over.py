"""Many dead processes: their folders are taken over a few at a time, for each costs the application file descriptors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchgear.emitter.spool.spool import Spool
from tests.support.spooling import LIMIT, descriptors_in, drained, killed, opened, segments, written

HELD = 16
DEAD = 50
RECORDS = 3


def age(segment: Path) -> float:
    return segment.parent.stat().st_mtime


def leave_behind(root: Path, count: int = DEAD, first: int = 0) -> None:
    """What so many short-lived processes left, one after the other: three records each, numbered through."""
    for process in range(first, first + count):
        (root / "making").mkdir(parents=True, exist_ok=True)
        spool = Spool(root / "making", LIMIT)
        spool.renew()
        spool.append(written(*range(process * RECORDS, (process + 1) * RECORDS)))
        killed(spool)
        (folder,) = (root / "making").iterdir()
        os.utime(folder, (1_000_000 + process, 1_000_000 + process))
        folder.rename(root / folder.name)
    (root / "making").rmdir()


def sent(spool: Spool, most: int = 7) -> list[int]:
    """All of it, as a feeder does: what is read is answered for, and when there is room the next folders are taken over."""
    found: list[int] = []
    while True:
        while taken := spool.read(most):
            found += [int(each.value) for each in taken]
            for each in taken:
                each.place.settle()
        spool.progress()
        if not spool.more:
            return found
        spool.open()


def test_only_some_are_held_at_a_time_and_descriptors_are_left_to_the_application(tmp_path) -> None:
    leave_behind(tmp_path)
    spool = opened(tmp_path)
    held = sorted(segments(tmp_path), key=age)[:HELD]
    for _ in range(3):
        assert spool.taken_over == spool.records == spool.unread == HELD * RECORDS
        assert spool.bytes == sum(path.stat().st_size for path in held)
        assert not spool.more, "there is no room"
        assert descriptors_in(tmp_path) <= HELD + 2
        spool.open()
    assert len(spool.read(1_000)) == RECORDS
    spool.append(written(1_000))
    assert descriptors_in(tmp_path) <= 2 * HELD + 3
    killed(spool)
    assert descriptors_in(tmp_path) == 0


def test_all_come_in_the_end_each_once_the_oldest_first_and_nothing_is_left(tmp_path) -> None:
    leave_behind(tmp_path)
    spool = opened(tmp_path)
    assert sent(spool) == list(range(DEAD * RECORDS))
    assert (spool.taken_over, spool.records, spool.unread, spool.bytes) == (DEAD * RECORDS, 0, 0, 0)
    assert (spool.dropped, spool.damaged) == (0, 0)
    spool.close()
    assert descriptors_in(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_there_is_room_as_soon_as_one_is_done_with(tmp_path) -> None:
    leave_behind(tmp_path, HELD + 1)
    spool = opened(tmp_path)
    taken = spool.read(RECORDS)
    assert not spool.more
    for each in taken:
        each.place.settle()
    spool.progress()
    assert spool.more
    assert spool.open() == RECORDS
    assert not spool.more
    assert [number for number, _ in drained(spool)] == list(range(RECORDS, (HELD + 1) * RECORDS))
    spool.open()
    assert not spool.more, "there are no others"
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_those_it_has_no_room_for_are_free_for_another_process(tmp_path) -> None:
    leave_behind(tmp_path, 2 * HELD)
    first, second = opened(tmp_path), opened(tmp_path)
    assert (first.taken_over, second.taken_over) == (HELD * RECORDS, HELD * RECORDS)
    assert sent(second) == list(range(HELD * RECORDS, 2 * HELD * RECORDS))
    assert sent(first) == list(range(HELD * RECORDS)), "and what the other one has, or sent, is not taken over again"
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_killed_in_between_loses_none_and_marks_what_may_have_been_sent(tmp_path) -> None:
    leave_behind(tmp_path, DEAD)
    first = opened(tmp_path)
    answered = []
    for _ in range(20):
        for each in first.read(RECORDS):
            answered.append(int(each.value))
            each.place.settle()
        first.progress()
        first.open()
    first.append(written(1_000))
    doubtful = [int(each.value) for each in first.read(RECORDS)]
    killed(first)
    second, found = opened(tmp_path), []
    while second.records or second.more:
        found += drained(second)
        second.open()
    assert answered + sorted(number for number, _ in found) == [*range(DEAD * RECORDS), 1_000]
    assert sorted(number for number, mark in found if mark) == doubtful
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_leaves_later_is_taken_over_too(tmp_path) -> None:
    leave_behind(tmp_path, HELD + 4)
    spool = opened(tmp_path)
    leave_behind(tmp_path, 3, first=HELD + 4)
    assert sent(spool) == list(range((HELD + 4) * RECORDS)), "they were not there when it looked"
    assert spool.open() == 3 * RECORDS
    assert sent(spool) == list(range((HELD + 4) * RECORDS, (HELD + 7) * RECORDS))
    spool.close()


def test_empty_and_unreadable_folders_take_no_room(tmp_path, monkeypatch) -> None:
    """As those of processes that were killed before they wrote anything."""
    leave_behind(tmp_path, 2 * HELD + 1)
    for path in sorted(segments(tmp_path), key=age)[:HELD]:
        path.write_bytes(b"")
    first = sorted(segments(tmp_path), key=age)[HELD].parent
    really = Path.glob

    def glob(self: Path, pattern: str):
        if self == first:
            raise OSError(5, "Input/output error")
        return really(self, pattern)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "glob", glob)
        spool = opened(tmp_path)
    assert spool.taken_over == HELD * RECORDS
    spool.close()


def test_a_folder_with_files_deleted_again_and_again_does_not_eat_descriptors(tmp_path) -> None:
    """A deleted file is kept open for what is unread in it: so many of them, then the oldest is given up and counted."""
    spool = opened(tmp_path)
    for number in range(100):
        spool.append(written(number))
        for path in segments(tmp_path):
            path.unlink()
    assert descriptors_in(tmp_path) <= HELD + 2
    assert spool.dropped == 100 - spool.records > 0
    assert [number for number, _ in drained(spool)] == list(range(spool.dropped, 100)), "the newest, in order"
    spool.close()


def test_our_folder_deleted_again_and_again_does_not_eat_descriptors(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    for number in range(120):
        spool.append(written(number))
        for path in root.glob("*/*"):
            path.unlink()
        for path in root.iterdir():
            path.rmdir()
        spool.open()
    assert descriptors_in(tmp_path) <= 5 * HELD
    assert spool.dropped == 120 - spool.records > 0
    kept = [number for number, _ in drained(spool)]
    assert kept == list(range(spool.dropped, 120))
    spool.close()


def test_without_descriptors_its_own_folder_leaves_nothing_half_made(tmp_path, monkeypatch) -> None:

    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as none_left:
        none_left.setattr("switchgear.emitter.spool.lock.os.open", refuse)
        for _ in range(3):
            with pytest.raises(OSError, match="Too many open files"):
                opened(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert descriptors_in(tmp_path) == 0
