"""The emitter with a spool and without a broker: where events go, and what happens when the disk fails."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from switchgear import Emitter, Event, SwitchgearError
from switchgear.emitter import sender, spool_router
from switchgear.emitter.record_batch import RecordBatch
from switchgear.emitter.spool import Spool
from switchgear.emitter.status import SpoolStatus
from tests.support.limits import ANSWER_S, HAPPEN_S, READY_S
from tests.support.spooling import databases, descriptors_in, events_in, left_in, opened, written
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"
LIMIT = 16 * 1_048_576


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Emitter]]:
    """``make(**options)``: an emitter with its spool in a folder of the test."""
    made: list[Emitter] = []

    def one(**options: Any) -> Emitter:
        given: dict[str, Any] = {"spool_dir": tmp_path / "spool", "spool_bytes": LIMIT}
        emitter = Emitter(NO_BROKER, **(given | options))
        made.append(emitter)
        return emitter

    yield one
    for emitter in made:
        emitter.close(0)


@pytest.fixture
def away_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer counts as down after a moment instead of a second."""
    monkeypatch.setattr(sender, "AWAY_AFTER_S", 0.02)


def spool_of(emitter: Emitter) -> SpoolStatus:
    found = emitter.status().spool
    assert found is not None
    return found


def emit(emitter: Emitter, first: int, last: int) -> None:
    for number in range(first, last):
        assert emitter.emit(Event("t", "success", metadata={"number": number}))


@pytest.mark.slow
@pytest.mark.usefixtures("away_soon")
def test_while_kafka_is_away_events_go_to_disk_in_order_and_the_buffer_stays_empty(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    emitter = make(buffer_size=500)
    for start in range(0, 5_000, 250):
        emit(emitter, start, start + 250)
        until(lambda start=start: emitter.status().spooled >= start)
    until(lambda: emitter.status().spooled == 5_000)
    status = emitter.status()
    assert (status.emitted, status.buffered, status.dropped, status.acknowledged) == (5_000, 0, 0, 0)
    assert spool_of(emitter).in_use
    assert emitter.close(0) is False
    status = emitter.status()
    assert (status.spooled, status.dropped) == (5_000, 0), "they are the next process's to send"
    assert left_in(tmp_path / "spool") == list(range(5_000))


@pytest.mark.slow
def test_threads_that_close_an_emitter_at_the_same_time_close_it_once(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    emitter = make()
    emit(emitter, 0, 500)
    threads = [threading.Thread(target=emitter.close, args=(0.2,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert not any(thread.is_alive() for thread in threads)
    status = emitter.status()
    assert (status.emitted, status.spooled, status.dropped, status.alive) == (500, 500, 0, False)
    after = make()
    until(lambda: after.emit(Event("t", "success")) and spool_of(after).taken_over == 500)


def test_closing_writes_events_in_memory_to_disk(make: Callable[..., Emitter], tmp_path: Path) -> None:
    """Within the first second nothing is on disk yet."""
    emitter = make()
    emit(emitter, 0, 300)
    emitter.close(0)
    assert (emitter.status().spooled, emitter.status().dropped) == (300, 0)
    assert left_in(tmp_path / "spool") == list(range(300))


@pytest.mark.slow
def test_an_interpreter_that_ends_leaves_its_events_on_disk(tmp_path: Path) -> None:
    code = f"""
from switchgear import Emitter, Event
emitter = Emitter({NO_BROKER!r}, spool_dir={str(tmp_path / "spool")!r})
for number in range(50):
    emitter.emit(Event("t", "success", metadata={{"number": number}}))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=READY_S, capture_output=True)
    assert left_in(tmp_path / "spool") == list(range(50))


@pytest.mark.slow
def test_a_full_disk_is_logged_counted_and_tried_again(
    make: Callable[..., Emitter], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Events stay in memory, within its bound."""
    really, full = Spool.append, threading.Event()

    def append(self: Spool, events: Sequence[RecordBatch], *, in_flight: bool = False) -> int:
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return really(self, events, in_flight=in_flight)

    monkeypatch.setattr(Spool, "append", append)
    monkeypatch.setattr(spool_router, "_RETRY_S", 0.02)
    emitter = make(buffer_size=1_000)
    full.set()
    emit(emitter, 0, 800)
    until(lambda: spool_of(emitter).error)
    assert "database or disk is full" in (spool_of(emitter).error or "")
    assert emitter.status().spooled == 0
    emit(emitter, 800, 2_500)
    assert emitter.status().dropped > 0
    assert caplog.text.count("can't be used, events stay in memory") == 1
    full.clear()
    until(lambda: spool_of(emitter).error is None and not emitter.status().buffered)
    status = emitter.status()
    assert status.spooled + status.dropped == status.emitted == 2_500


@pytest.mark.usefixtures("away_soon")
@pytest.mark.parametrize("place", ["file/spool", "spool"], ids=["not a folder", "read-only"])
def test_the_status_shows_that_the_folder_cannot_be_written(
    make: Callable[..., Emitter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    if place == "spool":  # as root no permission refuses; the system's answer on a read-only disk does

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr("switchgear.emitter.spool.Path.mkdir", refuse)
    emitter = make(spool_dir=tmp_path / place, buffer_size=100)
    emit(emitter, 0, 150)
    until(lambda: spool_of(emitter).error)
    until(lambda: emitter.status().away_s)
    status = emitter.status()
    assert (status.buffered, status.dropped, status.spooled) == (100, 50, 0)


def test_a_folder_that_cannot_be_used_is_in_the_status_before_the_first_event_and_in_the_log_once(
    make: Callable[..., Emitter], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    emitter = make(spool_dir=tmp_path / "file")
    assert "FileExistsError" in (spool_of(emitter).error or "")
    emit(emitter, 0, 10)
    emitter.close(0)
    assert "FileExistsError" in (spool_of(emitter).error or "")
    assert caplog.text.count("can't be used, events stay in memory") == 1


def test_a_disk_that_hangs_at_the_start_holds_up_the_start_for_a_moment_only(
    make: Callable[..., Emitter], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hang = threading.Event()
    monkeypatch.setattr(Spool, "check", lambda _spool: hang.wait(ANSWER_S))
    monkeypatch.setattr(spool_router, "_CHECK_LIMIT_S", 0.01)
    try:
        make()
        assert "is slow: no answer within 0.01 s" in caplog.text
    finally:
        hang.set()


@pytest.mark.usefixtures("away_soon")
def test_a_disk_that_hangs_holds_up_no_call(make: Callable[..., Emitter], monkeypatch: pytest.MonkeyPatch) -> None:
    really, hang, hangs = Spool.append, threading.Event(), threading.Event()

    def append(self: Spool, events: Sequence[RecordBatch], *, in_flight: bool = False) -> int:
        hangs.set()
        hang.wait(HAPPEN_S)
        return really(self, events, in_flight=in_flight)

    monkeypatch.setattr(Spool, "append", append)
    emitter = make(buffer_size=1_000)
    emit(emitter, 0, 100)
    assert hangs.wait(HAPPEN_S)
    began = time.perf_counter()
    emit(emitter, 100, 500)
    assert time.perf_counter() - began < 5
    hang.set()
    until(lambda: emitter.status().spooled == 500)


@pytest.mark.slow
@pytest.mark.usefixtures("away_soon")
def test_a_probe_request_that_goes_to_disk_is_kept_as_a_plain_refusal(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    """If it were sent later, the owner would grant a lease to a process that does not use it."""
    emitter = make()
    emitter.emit(Event("t", "rejected", probe_requested=True, metadata={"number": 1}), urgent=True)
    emitter.emit(Event("t", "success", lease_id="l", metadata={"number": 2}), urgent=True)
    until(lambda: emitter.status().spooled == 2)
    emitter.close(0)
    assert left_in(tmp_path / "spool") == [1, 2]
    (path,) = databases(tmp_path / "spool")
    refusal, _ = events_in(path)
    assert b'"rejected"' in refusal.value
    assert b"probe_requested" not in refusal.value


@pytest.mark.slow
@pytest.mark.usefixtures("away_soon")
def test_a_death_of_the_background_loses_no_event_on_disk(make: Callable[..., Emitter], tmp_path: Path) -> None:
    emitter = make()
    emit(emitter, 0, 100)
    until(lambda: emitter.status().spooled == 100)
    loop = emitter._background.loop()
    thread = emitter._background._thread
    # What it wrote is noted, too: else it may write that again.
    emitter._background.run(asyncio.sleep(0.1)).result(ANSWER_S)
    loop.call_soon_threadsafe(loop.stop)
    assert thread is not None
    thread.join(ANSWER_S)
    emit(emitter, 100, 200)
    until(lambda: emitter.status().spooled == 200)
    assert (emitter.status().failed, emitter.status().buffered) == (0, 0)
    emitter.close(0)
    assert left_in(tmp_path / "spool") == list(range(200))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_spool_of_its_own(tmp_path: Path) -> None:
    folder = str(tmp_path / "spool")
    code = f"""
import os, time
from switchgear import Emitter, Event
emitter = Emitter({NO_BROKER!r}, spool_dir={folder!r})
def spooled(count):
    deadline = time.monotonic() + 20
    while emitter.status().spooled < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return emitter.status().spooled == count
for number in range(10):
    emitter.emit(Event("t", "success", metadata={{"number": number}}))
assert spooled(10)
child = os.fork()
if child == 0:
    assert emitter.status().spooled == 0
    emitter.emit(Event("t", "success", metadata={{"number": 100}}))
    os._exit(0 if spooled(1) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
emitter.emit(Event("t", "success", metadata={{"number": 10}}))
assert spooled(11), emitter.status()
emitter.close(0)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sorted(left_in(tmp_path / "spool")) == [*range(11), 100]


@pytest.mark.slow
@pytest.mark.usefixtures("away_soon")
def test_writes_in_the_background_thread_when_no_other_thread_can_be_started(
    make: Callable[..., Emitter], tmp_path: Path, no_threads: threading.Event
) -> None:
    emitter = make()
    emit(emitter, 0, 100)
    until(lambda: emitter.status().spooled == 100)
    no_threads.clear()
    emit(emitter, 100, 200)
    until(lambda: emitter.status().spooled == 200)
    no_threads.set()
    emitter.close(0)
    assert left_in(tmp_path / "spool") == list(range(200))


@pytest.mark.slow
def test_takes_over_one_dead_process_at_a_time(make: Callable[..., Emitter], tmp_path: Path) -> None:
    dead = [opened(tmp_path / "spool", LIMIT) for _ in range(20)]
    for spool in dead:
        spool.append(written(1, 2))
    for spool in dead:
        spool.close()
    emitter = make()
    emit(emitter, 0, 10)
    until(lambda: emitter.status().spooled == 12)
    status = emitter.status()
    assert (status.emitted, status.buffered, status.dropped, spool_of(emitter).taken_over) == (12, 0, 0, 2)
    assert descriptors_in(tmp_path) < 10
    emitter.close(0)
    assert (emitter.status().spooled, emitter.status().dropped) == (12, 0)
    assert len(databases(tmp_path / "spool")) == 20


def test_a_spool_below_16_mib_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SwitchgearError, match="spool_bytes is 1000"):
        Emitter(NO_BROKER, spool_dir=tmp_path, spool_bytes=1_000)


def test_a_relative_folder_stays_when_the_working_directory_changes(
    make: Callable[..., Emitter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    emitter = make(spool_dir="events")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    emit(emitter, 0, 10)
    emitter.close(0)
    assert emitter.status().spooled == 10
    assert left_in(tmp_path / "events") == list(range(10))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_status_has_no_spool_without_spool_dir() -> None:
    status = Emitter(NO_BROKER).status()
    assert (status.spool, status.spooled) == (None, 0)
