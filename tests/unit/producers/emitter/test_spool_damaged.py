"""Files of the spool that are deleted or damaged while the process runs: what is lost is counted, the rest goes on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from switchgear.emitter.spool import Place, Spool
from tests.support.spooling import acknowledge, damage, databases, drained, opened, written


def filled(root: Path, count: int) -> Spool:
    spool = opened(root)
    spool.append(written(*range(count)))
    return spool


def numbers(spool: Spool) -> list[int]:
    return [number for number, _ in drained(spool)]


def test_a_deleted_folder_costs_the_events_in_it_and_no_later_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "spool"
    spool = filled(root, 40)
    shutil.rmtree(root)
    assert spool.append(written(*range(40, 50))) == 10
    assert spool.dropped == 40
    assert "40 events in" in caplog.text
    assert "the file was deleted" in caplog.text
    assert numbers(spool) == list(range(40, 50))
    spool.close()
    assert list(root.iterdir()) == []


def test_a_deleted_file_is_noticed_when_the_folder_is_looked_at(tmp_path: Path) -> None:
    spool = filled(tmp_path, 40)
    databases(tmp_path)[0].unlink()
    spool.open()
    assert (spool.dropped, spool.records, spool.unread) == (40, 0, 0)
    spool.close()


def test_a_deleted_file_is_noticed_when_the_spool_is_closed(tmp_path: Path) -> None:
    spool = filled(tmp_path, 40)
    databases(tmp_path)[0].unlink()
    spool.close()
    assert (spool.dropped, spool.records) == (40, 0)


def test_events_in_flight_of_a_deleted_file_are_not_counted_as_dropped(tmp_path: Path) -> None:
    spool = filled(tmp_path, 40)
    taken = spool.read(10)
    assert spool.records - spool.unread == 10
    databases(tmp_path)[0].unlink()
    spool.open()
    assert spool.dropped == 30
    assert spool.records == 0
    for each in taken:
        acknowledge(each)
    spool.progress()
    assert spool.records == 0
    spool.close()


def test_copies_in_a_deleted_folder_change_no_count(tmp_path: Path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    copies = written(1, 2, 3)
    for each in copies:
        each.answer = Place(spool.answered)
    spool.append(copies, in_flight=True)
    shutil.rmtree(root)
    spool.open()
    assert (spool.records, spool.unread, spool.dropped) == (0, 0, 0)
    for each in copies:
        acknowledge(each)
    spool.append(written(4))
    assert numbers(spool) == [4]
    spool.close()


def test_a_folder_deleted_again_and_again_costs_no_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "spool"
    spool = opened(root)
    for number in range(30):
        spool.append(written(number))
        shutil.rmtree(root)
        spool.open()
    assert spool.dropped == 30
    assert len(databases(root)) == 1
    spool.close()


def test_a_file_that_cannot_be_read_is_set_aside_and_its_events_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = filled(tmp_path, 40)

    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.Spool._read_ahead", fail)
        assert spool.read(10) == []
    assert (spool.dropped, spool.damaged) == (40, 1)
    assert "it is damaged (disk I/O error)" in caplog.text
    spool.append(written(40))
    assert numbers(spool) == [40]
    spool.close()
    assert len(list(tmp_path.glob("*.damaged"))) == 1


def test_other_errors_of_reading_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = filled(tmp_path, 40)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.Spool._read_ahead", fail)
        with pytest.raises(sqlite3.OperationalError):
            spool.read(10)
    assert numbers(spool) == list(range(40))
    spool.close()


def test_a_file_found_damaged_while_writing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = filled(tmp_path, 40)
    really, damaged = Spool._insert, spool._connection

    def insert(self: Spool, connection: sqlite3.Connection, *given: Any, **options: Any) -> None:
        if connection is damaged:
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        really(self, connection, *given, **options)

    monkeypatch.setattr(Spool, "_insert", insert)
    assert spool.append(written(40, 41)) == 2
    assert (spool.dropped, spool.damaged) == (40, 1)
    assert numbers(spool) == [40, 41]
    spool.close()


def test_a_damaged_file_of_a_dead_process_is_renamed_and_counted_once(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()
    damage(databases(tmp_path)[0])
    spool = opened(tmp_path)
    spool.open()
    assert (spool.taken_over, spool.damaged) == (0, 1)
    spool.close()
