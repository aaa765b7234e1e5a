"""The spool as a queue on disk: order, bound, what a killed process leaves, and a disk that gives up."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchgear.emitter.spool.place import Place
from switchgear.emitter.spool.spool import Spool
from tests.support.spooling import LIMIT, drained, killed, opened, segments, written


def test_what_goes_in_comes_out_in_order_and_leaves_nothing(tmp_path) -> None:
    spool = opened(tmp_path)
    for start in range(0, 100, 10):
        assert spool.append(written(*range(start, start + 10))) == 10
    assert (spool.records, spool.unread) == (100, 100)
    assert drained(spool) == [(number, False) for number in range(100)]
    assert (spool.records, spool.unread, spool.bytes) == (0, 0, 0)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_its_records_to_the_next_one(tmp_path) -> None:
    first = opened(tmp_path)
    first.append(written(*range(20)))
    killed(first)
    second = opened(tmp_path)
    assert (second.taken_over, second.records) == (20, 20)
    second.append(written(20, 21))
    assert drained(second) == [(number, False) for number in range(22)], "what was never handed over is not marked"
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_after_a_crash_only_what_may_have_been_sent_is_marked(tmp_path) -> None:
    first = opened(tmp_path)
    first.append(written(*range(20)))
    taken = first.read(12)
    for each in [*taken[:5], taken[8]]:  # acknowledged: five, and one behind a gap
        each.place.settle()
    first.progress()
    killed(first)
    second = opened(tmp_path)
    assert drained(second) == [(number, number < 12) for number in range(5, 20)]


def test_a_second_crash_does_not_forget_what_was_acknowledged_before_the_first(tmp_path) -> None:
    first = opened(tmp_path)
    first.append(written(*range(20)))
    for each in first.read(5):
        each.place.settle()
    first.progress()
    killed(first)
    second = opened(tmp_path)
    assert len(second.read(3)) == 3
    killed(second)
    assert drained(opened(tmp_path)) == [(number, number < 8) for number in range(5, 20)]


def test_two_crashes_in_a_row_lose_no_mark(tmp_path) -> None:
    first = opened(tmp_path)
    first.append(written(*range(10)))
    first.read(4)
    killed(first)
    killed(opened(tmp_path))
    third = opened(tmp_path)
    assert drained(third) == [(number, number < 4) for number in range(10)]


def test_living_processes_never_share(tmp_path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.append(written(1))
    second.append(written(2))
    second.open()
    assert (first.taken_over, second.taken_over) == (0, 0)
    killed(first)
    second.open()
    assert second.taken_over == 1
    assert drained(second) == [(1, False), (2, False)], "the older ones first"


def test_a_dead_process_goes_to_one_of_many_alone(tmp_path) -> None:
    dead = opened(tmp_path)
    dead.append(written(*range(5)))
    killed(dead)
    heirs = [opened(tmp_path) for _ in range(3)]
    assert sorted(heir.taken_over for heir in heirs) == [0, 0, 5]


def test_a_damaged_cursor_means_that_anything_may_have_been_sent(tmp_path) -> None:
    first = opened(tmp_path)
    first.append(written(*range(4)))
    first.read(1)
    killed(first)
    (cursor,) = tmp_path.glob("*/cursor")
    cursor.write_bytes(b"\xff" + cursor.read_bytes()[1:])
    assert drained(opened(tmp_path)) == [(number, True) for number in range(4)]


def test_full_it_gives_up_its_oldest_segment_and_counts(tmp_path, caplog) -> None:
    spool = opened(tmp_path, 100_000)
    for number in range(400):
        spool.append(written(number, size=1_000))
        assert sum(path.stat().st_size for path in segments(tmp_path)) <= 100_000
    kept = [number for number, _ in drained(spool)]
    assert kept == list(range(400 - len(kept), 400)), "the newest, without a gap"
    assert len(kept) > 70
    assert spool.dropped == 400 - len(kept)
    assert "events were dropped, the oldest: the spool of 100000 bytes is full" in caplog.text


def test_records_on_their_way_that_lie_in_a_dropped_segment_are_not_counted_as_dropped(tmp_path) -> None:
    spool = opened(tmp_path, 50_000)
    spool.append(written(*range(20), size=1_000))
    taken = [*spool.read(20), *spool.read(20)]
    assert len(taken) == 20
    spool.append(written(*range(20, 70), size=1_000))
    for each in taken:
        each.place.settle()
    spool.progress()
    assert spool.dropped + len(drained(spool)) == 50
    assert spool.records == 0


def test_records_already_on_their_way_are_kept_but_not_read_again(tmp_path) -> None:
    spool = opened(tmp_path)
    places = [Place(spool.tally) for _ in range(3)]
    spool.append([each._replace(sent=True) for each in written(1, 2, 3)], places)
    spool.append(written(4, 5))
    assert [int(each.value) for each in spool.read(10)] == [4, 5]
    places[0].settle()
    spool.progress()
    assert spool.records == 4
    killed(spool)
    assert drained(opened(tmp_path)) == [(2, True), (3, True), (4, True), (5, True)]


def test_going_back_reads_again_what_has_no_answer_marked(tmp_path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(10)))
    for each in spool.read(6)[:2]:
        each.place.settle()
    spool.go_back()
    assert drained(spool) == [(number, number < 6) for number in range(2, 10)]


def test_only_the_owner_may_read_the_files(tmp_path) -> None:
    root = tmp_path / "new" / "spool"
    spool = opened(root)
    spool.append(written(1))
    spool.read(1)
    (folder,) = root.iterdir()
    assert stat.S_IMODE(root.stat().st_mode) == stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 3


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        opened(tmp_path / "file" / "spool")


def test_a_disk_that_fills_up_within_a_write_keeps_what_was_whole(tmp_path, monkeypatch) -> None:
    """The real ``write`` up to a byte in the middle, then ENOSPC, as a full disk does it."""
    spool = opened(tmp_path)
    spool.append(written(1, 2, 3))
    really = os.write
    room = 10

    def filling(file: int, data) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = really(file, bytes(data)[:room])
        room -= done
        return done

    with monkeypatch.context() as full:
        full.setattr("switchgear.emitter.spool.segment.os.write", filling)
        with pytest.raises(OSError, match="No space left"):
            spool.append(written(4, 5))
    spool.append(written(6))
    killed(spool)
    heir = opened(tmp_path)
    assert drained(heir) == [(1, False), (2, False), (3, False), (6, False)]
    assert heir.damaged == 0, "the half-written frame was cut off"


def test_a_torn_end_is_counted_and_the_rest_taken_over(tmp_path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(5)))
    killed(spool)
    (path,) = segments(tmp_path)
    os.truncate(path, path.stat().st_size - 3)
    heir = opened(tmp_path)
    assert (heir.taken_over, heir.damaged) == (4, 1)
    assert [number for number, _ in drained(heir)] == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 1, "the dead one's folder is gone, its torn end with it"


def test_a_torn_end_alone_is_cleared_away_and_counted_once(tmp_path) -> None:
    spool = opened(tmp_path)
    spool.append(written(1))
    killed(spool)
    (path,) = segments(tmp_path)
    os.truncate(path, 5)
    heir = opened(tmp_path)
    heir.open()
    assert (heir.taken_over, heir.damaged) == (0, 1)
    assert segments(tmp_path) == []


def test_a_leftover_that_cannot_be_read_is_told_and_the_spool_is_used_all_the_same(
    tmp_path, monkeypatch, caplog
) -> None:
    dead = opened(tmp_path)
    dead.append(written(1))
    killed(dead)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    heir = Spool(tmp_path, LIMIT)
    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.segment.os.pread", fail)
        assert heir.open() == 0
    assert "can't be read" in caplog.text
    heir.append(written(2))
    assert heir.open() == 1, "it is tried again"
    assert drained(heir) == [(1, False), (2, False)]


@given(
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=60),
    read=st.integers(0, 60),
    cut=st.integers(0, 5_000),
    junk=st.binary(max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_whatever_happens_to_the_end_of_a_killed_process_order_and_bound_hold(sizes, read, cut, junk) -> None:
    """Killed after ``read`` records were handed over, its last file cut and overgrown: a run of whole records is left, in order."""
    with tempfile.TemporaryDirectory() as name:
        root, limit = Path(name), 40_000
        first = opened(root, limit)
        for number, size in enumerate(sizes):
            first.append(written(number, size=size))
            assert first.bytes == sum(path.stat().st_size for path in segments(root)) <= limit
        dropped = first.dropped
        handed = [int(each.value) for each in first.read(read)] if read else []
        killed(first)
        last = segments(root)[-1]
        before = last.stat().st_size
        os.truncate(last, max(0, before - cut))
        with last.open("ab") as file:
            file.write(junk)
        found = drained(opened(root, limit + 100))
        numbers = [number for number, _ in found]
        assert numbers == list(range(dropped, dropped + len(numbers))), "in order, none twice, none missing in between"
        assert all(sent == (number in handed) for number, sent in found)
        assert segments(root) == []
        if not cut:
            assert len(numbers) == len(sizes) - dropped
