"""A spool whose folder is deleted, without a broker: the counts add up."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchgear import Emitter, Event
from switchgear.emitter.status import EmitterStatus
from tests.support.spooling import databases, left_in
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"
LIMIT = 16 * 1_048_576


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Emitter]]:
    """``make(**options)``: an emitter with its spool in a folder of the test, that tries a failed disk again soon."""
    monkeypatch.setattr("switchgear.emitter.spool_router._FIRST_PAUSE_S", 0.05)
    made: list[Emitter] = []

    def one(**options: Any) -> Emitter:
        given: dict[str, Any] = {"spool_dir": tmp_path / "spool", "spool_bytes": LIMIT}
        made.append(Emitter(NO_BROKER, **(given | options)))
        return made[-1]

    yield one
    for emitter in made:
        emitter.close(0)


def emit(emitter: Emitter, first: int, last: int, *, tool: str = "t") -> None:
    for number in range(first, last):
        assert emitter.emit(Event(tool, "success", metadata={"number": number}))


def assert_adds_up(status: EmitterStatus) -> None:
    known = status.acknowledged + status.dropped + status.failed + status.buffered + status.spooled
    assert known == status.emitted, status


def test_a_folder_deleted_before_the_first_write_is_made_again(make: Callable[..., Emitter], tmp_path: Path) -> None:
    emitter, root = make(), tmp_path / "spool"
    emit(emitter, 0, 10)
    until(root.exists)
    until(lambda: databases(root))
    shutil.rmtree(root)
    emit(emitter, 10, 20)
    until(lambda: emitter.status().spooled == 20)
    status = emitter.status()
    assert_adds_up(status)
    assert (status.dropped, status.failed) == (0, 0)
    until(lambda: (spool := emitter.status().spool) is not None and spool.error is None)
    emitter.close(0)
    assert left_in(root) == list(range(20))


def test_a_folder_deleted_with_events_in_it_is_made_again_for_later_events(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    emitter, root = make(), tmp_path / "spool"
    emit(emitter, 0, 50)
    until(lambda: emitter.status().spooled == 50)
    shutil.rmtree(root)
    emit(emitter, 50, 80)
    until(lambda: not emitter.status().buffered)
    assert_adds_up(emitter.status())
    emitter.close(0)
    status = emitter.status()
    assert_adds_up(status)
    assert (status.spooled, status.dropped) == (30, 50), "a deleted file can't be found again"
    assert left_in(root) == list(range(50, 80))


def test_closing_after_the_folder_was_deleted_counts_its_events_as_dropped(
    make: Callable[..., Emitter], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    emitter, root = make(), tmp_path / "spool"
    for first in range(0, 100, 20):
        emit(emitter, first, first + 20)
        until(lambda first=first: emitter.status().spooled == first + 20)
    shutil.rmtree(root)
    with caplog.at_level(logging.WARNING, "switchgear"):
        emitter.close(0)
    status = emitter.status()
    assert_adds_up(status)
    assert (status.spooled, status.dropped) == (0, 100)
    assert "the file was deleted" in caplog.text
    assert "closed with 100 events that Kafka did not acknowledge" in caplog.text
    assert "the next process sends them" not in caplog.text
    assert not root.exists() or databases(root) == []


def test_closing_right_after_the_folder_was_deleted_writes_to_a_new_one(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    emitter, root = make(), tmp_path / "spool"
    emit(emitter, 0, 1)
    until(lambda: databases(root))
    shutil.rmtree(root)
    emit(emitter, 1, 30)
    emitter.close(0)
    status = emitter.status()
    assert_adds_up(status)
    assert (status.spooled, status.dropped) == (30, 0)
    assert left_in(root) == list(range(30))


def test_a_death_of_the_background_after_the_folder_was_deleted_leaves_numbers_that_add_up(
    make: Callable[..., Emitter], tmp_path: Path
) -> None:
    emitter, root = make(), tmp_path / "spool"
    emit(emitter, 0, 50)
    until(lambda: emitter.status().spooled == 50)
    shutil.rmtree(root)
    loop, thread = emitter._background.loop(), emitter._background._thread
    loop.call_soon_threadsafe(loop.stop)
    assert thread is not None
    thread.join(20)
    emit(emitter, 50, 60)
    until(lambda: not emitter.status().buffered)
    assert_adds_up(emitter.status())
    emitter.close(0)
    assert left_in(root) == list(range(50, 60))


def test_a_relative_folder_stays_when_the_working_directory_changes(
    make: Callable[..., Emitter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    emitter = make(spool_dir="events")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    emit(emitter, 0, 10)
    emitter.close(0)
    assert_adds_up(emitter.status())
    assert left_in(tmp_path / "events") == list(range(10))
    assert list((tmp_path / "elsewhere").iterdir()) == []
