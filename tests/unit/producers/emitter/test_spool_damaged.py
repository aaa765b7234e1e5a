"""Damaged files of the spool: what is lost is counted, the rest goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from switchgear.emitter.spool import Spool
from tests.support.spooling import drained, opened, written


def filled(root: Path, count: int) -> Spool:
    spool = opened(root)
    spool.append(written(*range(count)))
    return spool


def numbers(spool: Spool) -> list[int]:
    return [number for number, _ in drained(spool)]


def test_a_file_that_cannot_be_read_is_set_aside_and_its_events_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = filled(tmp_path, 40)

    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.Spool._read_rows", fail)
        assert spool.read(10) == []
    assert (spool.dropped, spool.damaged) == (40, 1)
    assert "40 events are lost" in caplog.text
    assert "is damaged (disk I/O error)" in caplog.text
    spool.append(written(40))
    assert numbers(spool) == [40]
    spool.close()
    assert len(list(tmp_path.glob("*.damaged"))) == 1


def test_other_errors_of_reading_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = filled(tmp_path, 40)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    with monkeypatch.context() as broken:
        broken.setattr("switchgear.emitter.spool.Spool._read_rows", fail)
        with pytest.raises(sqlite3.OperationalError):
            spool.read(10)
    assert numbers(spool) == list(range(40))
    spool.close()
