"""Files of many dead processes are taken over one at a time, for each costs the application file descriptors."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from tests.support.spooling import acknowledge, damage, databases, descriptors_in, drained, opened, written

DEAD = 50
RECORDS = 3


def leave_behind(root: Path, count: int = DEAD, first: int = 0) -> None:
    """Leave the files of so many processes, one after the other: three records each, numbered through."""
    for process in range(first, first + count):
        spool = opened(root / "making")
        spool.append(written(*range(process * RECORDS, (process + 1) * RECORDS)))
        spool.close()
        (path,) = databases(root / "making")
        os.utime(path, (1_000_000 + process, 1_000_000 + process))
        path.rename(root / path.name)
    (root / "making").rmdir()


@pytest.mark.slow
def test_holds_one_file_at_a_time_and_leaves_descriptors_to_the_application(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    spool = opened(tmp_path)
    for _ in range(3):
        assert spool.taken_over == spool.records == spool.unread == RECORDS
        assert not spool.more
        assert descriptors_in(tmp_path) <= 4
        spool.open()
    spool.close()
    assert descriptors_in(tmp_path) == 0


@pytest.mark.slow
def test_takes_over_every_file_in_the_end_the_oldest_first(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    spool = opened(tmp_path)
    assert drained(spool) == [(number, False) for number in range(DEAD * RECORDS)]
    assert (spool.taken_over, spool.records, spool.unread, spool.bytes) == (DEAD * RECORDS, 0, 0, 0)
    assert (spool.dropped, spool.damaged) == (0, 0)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_files_without_a_lock_are_free_for_another_process(tmp_path: Path) -> None:
    leave_behind(tmp_path, 2)
    first, second = opened(tmp_path), opened(tmp_path)
    assert drained(second) == [(number, False) for number in range(RECORDS, 2 * RECORDS)]
    assert drained(first) == [(number, False) for number in range(RECORDS)]
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_dies_in_between_loses_none_and_marks_what_may_have_been_sent(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    first = opened(tmp_path)
    answered = []
    for _ in range(20):
        for record in first.read(RECORDS):
            answered.append(int(record.value))
            acknowledge(record)
        first.progress()
        first.open()
    first.append(written(1_000))
    doubtful = [int(each.value) for each in first.read(RECORDS)]
    first.close()
    second = opened(tmp_path)
    found = drained(second)
    assert sorted([*answered, *(number for number, _ in found)]) == [*range(DEAD * RECORDS), 1_000]
    assert [number for number, mark in found if mark] == doubtful
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_takes_over_what_a_process_leaves_later(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.open()
    assert spool.taken_over == 0
    leave_behind(tmp_path, 3)
    spool.open()
    assert spool.taken_over == RECORDS
    assert [number for number, _ in drained(spool)] == list(range(3 * RECORDS))
    spool.close()


def test_passes_over_empty_and_damaged_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    leave_behind(tmp_path, 3)
    empty, damaged, _ = databases(tmp_path)
    empty.write_bytes(b"")
    damage(damaged)
    os.utime(damaged, (1_000_000, 1_000_000))
    spool = opened(tmp_path)
    assert (spool.taken_over, spool.damaged) == (RECORDS, 1)
    assert "is damaged and was renamed to" in caplog.text
    assert damaged.with_suffix(".damaged").exists()
    spool.close()


def test_leaves_no_half_made_file_when_no_descriptor_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as none_left:
        none_left.setattr("switchgear.emitter.spool.Path.touch", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            opened(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_leaves_no_half_made_file_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchgear.emitter.spool._TABLES", "PRAGMA max_page_count = 1; CREATE TABLE t (a);")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        opened(tmp_path)
    assert list(tmp_path.iterdir()) == []
