"""Whose folder it is, also where somebody deletes files in it: old ones, as cleaners of temporary folders do, or all."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.support.spooling import drained, killed, opened, segments, written

LONG_AGO = time.time() - 3_600


def lock_of(root: Path) -> Path:
    (found,) = root.glob("process-*/lock")
    return found


def test_a_lock_in_use_never_looks_old(tmp_path) -> None:
    spool = opened(tmp_path)
    lock = lock_of(tmp_path)
    os.utime(lock, (LONG_AGO, LONG_AGO))
    spool.open()
    assert time.time() - lock.stat().st_mtime < 60
    spool.close()


def test_a_lock_that_was_deleted_is_made_anew_and_holds(tmp_path) -> None:
    first, second = opened(tmp_path), opened(tmp_path / "other")
    second.root = tmp_path
    first.append(written(1, 2))
    lock_of(tmp_path).unlink()
    first.open()
    assert second.open() == 0, "the owner lives"
    killed(first)
    assert second.open() == 2
    assert [number for number, _ in drained(second)] == [1, 2]
    second.close()


def test_a_folder_without_a_lock_is_taken_over_when_it_has_had_none_for_long(tmp_path) -> None:
    dead = opened(tmp_path)
    dead.append(written(*range(5)))
    lock_of(tmp_path).unlink()
    killed(dead)
    (folder,) = tmp_path.iterdir()
    heir = opened(tmp_path)
    assert heir.taken_over == 0, "its owner may live, and will make another one within minutes"
    os.utime(folder, (LONG_AGO, LONG_AGO))
    assert heir.open() == 5
    assert [number for number, _ in drained(heir)] == list(range(5))
    heir.close()
    assert list(tmp_path.iterdir()) == []


def test_an_owner_whose_folder_another_process_has_by_now_leaves_it_alone(tmp_path) -> None:
    """Stopped for an hour, its lock deleted meanwhile: the records are the other one's to send, and nobody's twice."""
    stopped = opened(tmp_path)
    stopped.append(written(*range(5)))
    lock = lock_of(tmp_path)
    lock.unlink()
    os.utime(lock.parent, (LONG_AGO, LONG_AGO))
    heir = opened(tmp_path)
    assert heir.taken_over == 5
    stopped.open()
    assert (stopped.records, stopped.unread, stopped.dropped) == (0, 0, 5)
    stopped.append(written(5, 6))
    assert [number for number, _ in drained(stopped)] == [5, 6]
    stopped.close()
    assert [number for number, _ in drained(heir)] == list(range(5))
    heir.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_deleted_is_replaced(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    shutil.rmtree(root)
    with pytest.raises(FileNotFoundError):
        spool.append(written(1))
    spool.open()
    assert spool.append(written(1, 2)) == 2
    killed(spool)
    heir = opened(root)
    assert [number for number, _ in drained(heir)] == [1, 2]
    heir.close()


def test_a_folder_that_cannot_be_replaced_is_an_error_and_tried_again(tmp_path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    shutil.rmtree(root)
    root.write_text("")
    for _ in range(2):
        with pytest.raises(OSError, match=r"Not a directory|File exists"):
            spool.open()
        with pytest.raises(OSError, match="Not a directory"):
            spool.append(written(1))
    root.unlink()
    spool.open()
    spool.append(written(1))
    assert (spool.records, spool.dropped) == (1, 0)
    spool.close()


def test_what_another_user_left_is_that_users(tmp_path, monkeypatch) -> None:
    """In a folder for all, like ``/tmp``. As root no permission refuses, so it is the system's answer to others."""
    theirs = opened(tmp_path)
    theirs.append(written(1))
    lock = lock_of(tmp_path)
    killed(theirs)
    really = os.open

    def refuse(path, *options: int) -> int:
        if path == lock:
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *options)

    monkeypatch.setattr("switchgear.emitter.spool.lock.os.open", refuse)
    ours = opened(tmp_path)
    ours.append(written(2))
    assert [number for number, _ in drained(ours)] == [2]
    ours.close()
    assert len(segments(tmp_path)) == 1
