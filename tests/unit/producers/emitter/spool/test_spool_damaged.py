"""Files that somebody deletes, cuts or overwrites under a living spool: the rest is sent, and what is lost is counted."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from switchgear.emitter.spool.place import Place
from switchgear.emitter.spool.spool import Spool
from tests.support.spooling import drained, killed, opened, segments, written

SMALL = 100_000
"""A segment holds about twelve records of a thousand bytes."""


def numbers(spool: Spool) -> list[int]:
    return [number for number, _ in drained(spool)]


def filled(root: Path, count: int) -> Spool:
    spool = opened(root, SMALL)
    for number in range(count):
        spool.append(written(number, size=1_000))
    return spool


def assert_adds_up(spool: Spool, appended: int, read: int) -> None:
    """Everything is read or dropped, and nothing is left."""
    assert (spool.records, spool.unread, spool.outstanding) == (0, 0, 0)
    assert spool.dropped + read == appended


def test_segments_that_were_deleted_are_given_up_and_the_newer_ones_read(tmp_path, caplog) -> None:
    spool = filled(tmp_path, 60)
    first, second, *_ = segments(tmp_path)
    first.unlink()
    second.unlink()
    found = numbers(spool)
    assert found == list(range(60 - len(found), 60)), "the newest, without a gap"
    assert 20 <= spool.dropped <= 30
    assert "events were dropped, those in" in caplog.text
    assert_adds_up(spool, 60, len(found))
    spool.close()


def test_a_folder_deleted_with_events_in_it_costs_those_and_no_later_ones(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = filled(root, 40)
    shutil.rmtree(root)
    with pytest.raises(FileNotFoundError):
        spool.append(written(40))
    spool.open()
    assert spool.append(written(*range(40, 50))) == 10
    found = numbers(spool)
    assert found[-10:] == list(range(40, 50))
    assert found == sorted(found), "what the last file still held, it was open, comes first"
    assert_adds_up(spool, 50, len(found))
    spool.close()
    assert list(root.iterdir()) == []


def test_what_is_deleted_is_noticed_before_it_is_read(tmp_path) -> None:
    spool = filled(tmp_path, 40)
    *closed, _ = segments(tmp_path)
    for path in closed:
        path.unlink()
    spool.open()
    assert 0 < spool.records == spool.unread < 14
    assert spool.dropped + spool.records == 40
    spool.close()


def test_records_on_their_way_whose_file_is_deleted_are_answered_for_as_ever(tmp_path) -> None:
    spool = filled(tmp_path, 40)
    taken = [*spool.read(5), *spool.read(5)]
    for path in segments(tmp_path)[:-1]:
        path.unlink()
    spool.open()
    assert spool.records == spool.unread + 10
    for each in taken:
        each.place.settle()
    found = numbers(spool)
    assert_adds_up(spool, 40, len(found) + 10)
    spool.close()


def test_going_back_over_a_deleted_folder_counts_what_was_on_its_way_as_dropped(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = filled(root, 40)
    for each in spool.read(10)[:3]:
        each.place.settle()
    shutil.rmtree(root)
    spool.go_back()
    found = numbers(spool)
    assert_adds_up(spool, 40, len(found) + 3)
    spool.close()


def test_a_segment_that_cannot_be_read_is_tried_again_and_then_given_up(tmp_path, monkeypatch, caplog) -> None:
    spool = filled(tmp_path, 40)
    bad, *_ = segments(tmp_path)
    inode, really = bad.stat().st_ino, os.pread

    def fail(file: int, length: int, at: int) -> bytes:
        if os.fstat(file).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return really(file, length, at)

    monkeypatch.setattr("switchgear.emitter.spool.segment.os.pread", fail)
    for _ in range(4):
        with pytest.raises(OSError, match="Input/output error"):
            spool.read(10)
    assert spool.dropped == 0
    found = numbers(spool)
    assert found == list(range(40 - len(found), 40))
    assert 10 <= spool.dropped <= 14
    assert "can't be read: [Errno 5] Input/output error" in caplog.text
    assert_adds_up(spool, 40, len(found))
    spool.close()


def test_a_disk_that_fails_while_going_back_is_asked_again_and_the_numbers_stay(tmp_path, monkeypatch) -> None:
    spool = filled(tmp_path, 40)
    spool.read(10)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.segment.os.pread", fail)
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output error"):
                spool.go_back()
    assert spool.records == 40
    spool.go_back()
    assert drained(spool) == [(number, number < 10) for number in range(40)]
    assert_adds_up(spool, 40, 40)
    spool.close()


def test_a_process_without_file_descriptors_gives_nothing_up(tmp_path, monkeypatch) -> None:
    spool = filled(tmp_path, 40)

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.segment.os.open", fail)
        for _ in range(20):
            with pytest.raises(OSError, match="Too many open files"):
                spool.read(10)
    assert numbers(spool) == list(range(40))
    spool.close()


@pytest.mark.parametrize("length", [0, 7, 520, 5_200, 5_201])
def test_a_segment_that_is_cut_ends_there_and_what_is_appended_later_comes_out(tmp_path, length) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=500))
    (path,) = segments(tmp_path)
    os.truncate(path, length)
    early = numbers(spool)
    assert early == list(range(len(early)))
    assert len(early) < 20
    spool.append(written(20, 21))
    assert numbers(spool) == [20, 21]
    assert_adds_up(spool, 22, len(early) + 2)
    spool.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [0, 5_201])
def test_nothing_is_appended_to_a_segment_that_was_cut(tmp_path, length) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=500))
    os.truncate(segments(tmp_path)[0], length)
    spool.append(written(20, 21))
    assert len(segments(tmp_path)) == 2
    found = numbers(spool)
    assert found[-2:] == [20, 21]
    assert_adds_up(spool, 22, len(found))
    spool.close()


def test_nothing_is_appended_to_a_segment_that_was_deleted(tmp_path) -> None:
    """What it holds is read as long as it is open; what is written next survives the process."""
    spool = opened(tmp_path)
    spool.append(written(1, 2))
    segments(tmp_path)[0].unlink()
    spool.append(written(3))
    assert len(segments(tmp_path)) == 1
    assert [int(each.value) for each in spool.read(2)] == [1, 2]
    killed(spool)
    heir = opened(tmp_path)
    assert numbers(heir) == [3]
    heir.close()


def test_a_segment_cut_below_what_was_read_of_it_is_at_its_end(tmp_path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=500))
    taken = spool.read(10)
    os.truncate(segments(tmp_path)[0], 1_000)
    spool.append(written(20))
    for each in taken:
        each.place.settle()
    assert numbers(spool) == [20]
    assert_adds_up(spool, 21, 11)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def overwrite(path: Path, at: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\0" * length)


@pytest.mark.parametrize("at", [0, 5_000, 10_200])
def test_records_that_are_overwritten_count_as_dropped_at_the_end_of_their_segment(tmp_path, at) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=500))
    overwrite(segments(tmp_path)[0], at, 100)
    spool.append(written(20))
    found = numbers(spool)
    assert len(found) in {19, 20}
    assert found[-1] == 20
    assert spool.damaged == 1
    assert_adds_up(spool, 21, len(found))
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_end_is_cleared_away_when_all_before_it_was_answered_for(tmp_path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=500))
    path = segments(tmp_path)[0]
    overwrite(path, path.stat().st_size - 100, 100)
    found = numbers(spool)
    assert found == list(range(19))
    assert_adds_up(spool, 20, 19)
    assert spool.bytes == 0
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_segment_that_goes_for_want_of_room_is_counted_once(tmp_path) -> None:
    spool = filled(tmp_path, 40)
    overwrite(segments(tmp_path)[0], 500, 3_000)
    taken = spool.read(3)
    for each in taken:
        each.place.settle()
    for number in range(40, 140):
        spool.append(written(number, size=1_000))
    found = numbers(spool)
    assert found == list(range(140 - len(found), 140))
    assert_adds_up(spool, 140, len(found) + len(taken))
    spool.close()


def test_copies_of_what_is_on_its_way_in_a_deleted_folder_change_no_number(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    places = [Place(spool.tally) for _ in range(3)]
    spool.append(written(1, 2, 3), places)
    shutil.rmtree(root)
    spool.open()
    assert (spool.records, spool.unread, spool.dropped) == (3, 0, 0)
    for place in places[:2]:
        place.settle()
    spool.progress()
    spool.append(written(4))
    assert numbers(spool) == [4]
    spool.close()
    assert (spool.records, spool.dropped) == (0, 1), "the last one's copy is gone"
