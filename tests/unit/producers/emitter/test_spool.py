"""The spool as a queue on disk: order, bound, and what a killed process leaves."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from switchgear.emitter.record_batch import RecordBatch
from switchgear.emitter.spool import Place
from tests.support.deep import some
from tests.support.limits import READY_S
from tests.support.spooling import LIMIT, acknowledge, drained, opened, written

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.support.spooling import acknowledge, opened, written

spool = opened(Path(sys.argv[1]))
for row in range(0, 20, int(sys.argv[4])):
    spool.append(written(*range(row, row + int(sys.argv[4]))))
read, settled = int(sys.argv[2]), [int(each) for each in sys.argv[3].split(",") if each]
taken = spool.read(read) if read else []
for number in settled:
    acknowledge(taken[number])
spool.progress()
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_process(root: Path, read: int = 0, settled: str = "", in_a_row: int = 1) -> None:
    """Have a process write 20 records, read some, settle some, and kill itself."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), str(read), settled, str(in_a_row)],
        check=False, timeout=READY_S, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert ended.returncode == -9


def test_returns_events_in_order_and_leaves_no_file(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for start in range(0, 100, 10):
        assert spool.append(written(*range(start, start + 10))) == 10
    assert (spool.records, spool.unread) == (100, 100)
    assert drained(spool) == [(number, False) for number in range(100)]
    assert (spool.records, spool.unread, spool.bytes) == (0, 0, 0)
    spool.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_takes_over_the_events_of_a_killed_process_unmarked(tmp_path: Path) -> None:
    kill_a_process(tmp_path)
    spool = opened(tmp_path)
    assert (spool.taken_over, spool.records) == (20, 20)
    spool.append(written(20, 21))
    assert drained(spool) == [(number, False) for number in range(22)], "what was never handed over is not marked"
    spool.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_marks_only_what_a_killed_process_may_have_sent(tmp_path: Path) -> None:
    kill_a_process(tmp_path, read=12, settled="0,1,2,3,4,8")
    left = [number for number in range(5, 20) if number != 8]
    assert drained(opened(tmp_path)) == [(number, number < 12) for number in left]


@pytest.mark.slow
def test_does_not_send_again_what_was_acknowledged_of_a_row(tmp_path: Path) -> None:
    """The disk knows of a row that some of it may have been sent, so all that is left of it is marked."""
    kill_a_process(tmp_path, read=12, settled="0,1,2,3,4,8", in_a_row=10)
    left = [number for number in range(5, 20) if number != 8]
    assert drained(opened(tmp_path)) == [(number, True) for number in left]


def test_returns_whole_rows_until_there_are_as_many_events_as_asked_for(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(250)))
    spool.append(written(*range(250, 253), size=70_000))
    found = []
    for most, returned in ((1, 100), (101, 150), (1, 1), (2, 2)):
        taken = spool.read(most)
        assert len(taken) == returned
        found += [int(each.value) for each in taken]
        assert spool.unread == 253 - len(found)
        for each in taken:
            if int(each.value) % 3:
                acknowledge(each)
        spool.progress()
        assert spool.records == 253 - sum(number % 3 != 0 for number in found)
    assert found == list(range(253))
    assert spool.read(10) == []
    spool.go_back()
    assert drained(spool) == [(number, True) for number in range(0, 253, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(10), 3))
def test_every_event_is_acknowledged_dropped_or_still_there(tmp_path: Path, seed: int) -> None:
    """Events are written, read, acknowledged, dropped, read again and left to the next process, in a random order."""
    rng = random.Random(seed)
    spool = opened(tmp_path)
    emitted = dropped = only_in_memory = 0
    waiting: list[RecordBatch] = []
    acknowledged: set[int] = set()
    handed_over: set[int] = set()
    for _ in range(100):
        match rng.randrange(8):
            case 0 | 1 | 2:
                count, size = rng.randint(1, 250), rng.choice([0, 300, 30_000])
                spool.append(written(*range(emitted, emitted + count), size=size))
                emitted += count
            case 3 | 4:
                taken = spool.read(rng.randint(1, 300))
                numbers = [int(each.value) for each in taken]
                assert numbers == sorted(numbers)
                assert acknowledged.isdisjoint(numbers)
                assert handed_over.intersection(numbers) <= {int(each.value) for each in taken if each.resent}
                handed_over.update(numbers)
                waiting += taken
            case 5:
                rng.shuffle(waiting)
                for each in waiting[: len(waiting) // 2]:
                    acknowledge(each)
                    acknowledged.add(int(each.value))
                del waiting[: len(waiting) // 2]
                spool.progress()
            case 6 if rng.random() < 0.3:
                only_in_memory += len(waiting) - (spool.records - spool.unread)
                waiting.clear()
                spool.go_back()
            case 7 if rng.random() < 0.3:
                only_in_memory += len(waiting) - (spool.records - spool.unread)
                waiting.clear()
                dropped += spool.dropped
                spool.close()
                spool = opened(tmp_path)
    only_in_memory += len(waiting) - (spool.records - spool.unread)
    spool.go_back()
    left = {number for number, _ in drained(spool)}
    assert left.isdisjoint(acknowledged)
    assert len(left) + len(acknowledged) + only_in_memory + dropped + spool.dropped == emitted


@pytest.mark.slow
def test_keeps_answers_and_marks_of_two_processes_that_died_in_a_row(tmp_path: Path) -> None:
    kill_a_process(tmp_path, read=5, settled="0,1,2,3,4")
    second = opened(tmp_path)
    assert len(second.read(3)) == 3
    second.close()
    assert drained(opened(tmp_path)) == [(number, number < 8) for number in range(5, 20)]


def test_living_processes_do_not_share_files(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.append(written(1))
    second.append(written(2))
    second.open()
    assert (first.taken_over, second.taken_over) == (0, 0)
    first.close()
    assert drained(second) == [(2, False), (1, False)], "its own first"
    assert second.taken_over == 1


@pytest.mark.slow
def test_one_of_several_processes_takes_over_a_file(tmp_path: Path) -> None:
    kill_a_process(tmp_path)
    heirs = [opened(tmp_path) for _ in range(3)]
    assert sorted(heir.taken_over for heir in heirs) == [0, 0, 20]


@pytest.mark.slow
def test_a_full_spool_drops_its_oldest_events_and_counts_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = opened(tmp_path)
    for number in range(300):
        spool.append(written(number, size=100_000))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= LIMIT
    kept = [number for number, _ in drained(spool)]
    assert kept == list(range(300 - len(kept), 300)), "the newest, without a gap"
    assert len(kept) > 50
    assert spool.dropped == 300 - len(kept)
    assert f"events were dropped, the oldest: the spool of {LIMIT} bytes is full" in caplog.text


@pytest.mark.slow
def test_events_in_flight_are_not_counted_as_dropped_when_the_spool_is_full(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(written(*range(20), size=100_000))
    taken = spool.read(20)
    for number in range(20, 200):
        spool.append(written(number, size=100_000))
    for each in taken:
        acknowledge(each)
    spool.progress()
    assert spool.dropped + len(drained(spool)) == 180
    assert spool.records == 0


def test_copies_of_events_in_flight_are_read_by_the_next_process_only(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    copies = written(1, 2, 3)
    for each in copies:
        each.answer = Place(spool.answered)
    spool.append(copies, in_flight=True)
    spool.append(written(4, 5))
    assert [int(each.value) for each in spool.read(10)] == [4, 5]
    acknowledge(copies[0])
    spool.progress()
    assert spool.records == 4
    spool.close()
    assert drained(opened(tmp_path)) == [(2, True), (3, True), (4, True), (5, True)]


def test_going_back_reads_events_in_flight_again_and_marks_them(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(10):
        spool.append(written(number))
    taken = spool.read(6)
    for each in taken[:2]:
        acknowledge(each)
    spool.go_back()
    assert drained(spool) == [(number, number < 6) for number in range(2, 10)]


def test_only_the_user_may_read_the_files(tmp_path: Path) -> None:
    root = tmp_path / "new" / "spool"
    spool = opened(root)
    spool.append(written(1))
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()} == {0o600}


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        opened(tmp_path / "file" / "spool")


def test_a_write_that_finds_the_disk_full_writes_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """A limit of pages makes SQLite fail in the middle of a transaction, as a full disk does."""
    spool = opened(tmp_path)
    spool.append(written(1, 2, 3))
    assert spool._connection is not None
    spool._connection.execute("PRAGMA max_page_count = 30")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        spool.append(written(*range(4, 100), size=10_000))
    assert spool._connection is not None
    spool._connection.execute("PRAGMA max_page_count = 1000000")
    spool.append(written(6))
    assert drained(spool) == [(1, False), (2, False), (3, False), (6, False)]


def test_a_part_of_a_large_write_stays_when_the_disk_is_full_in_between(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert spool._connection is not None
    spool._connection.execute("PRAGMA max_page_count = 600")
    count = spool.append(written(*range(40), size=100_000))
    assert 0 < count < 40
    assert spool.records == count


def test_deleting_fails_for_want_of_a_disk_and_is_tried_again(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(written(1, 2))
    for each in spool.read(2):
        acknowledge(each)

    assert spool._connection is not None
    spool._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        spool.progress()
    spool._connection.execute("PRAGMA query_only = OFF")
    assert spool.records == 0, "they have their answer"
    spool.progress()
    assert (spool.records, spool.bytes) == (0, 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_ends_does_not_end_the_log_of_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from tests.support.spooling import opened, written

spool = opened(Path(sys.argv[1]))
spool.append(written(1, 2))
child = os.fork()
if child == 0:
    assert spool.records == 0
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
spool.append(written(3))
other = opened(Path(sys.argv[1]))
assert other.taken_over == 0, "the parent holds its lock"
assert [int(each.value) for each in spool.read(10)] == [1, 2, 3]
os._exit(0)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=READY_S, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert drained(opened(tmp_path)) == [(1, True), (2, True), (3, True)]
