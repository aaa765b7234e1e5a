"""The file that all hook processes share."""

from __future__ import annotations

import contextlib
import sqlite3
import stat

import pytest

from switchgear_cli.hook.state import KEPT_S, MOST_ROWS, SavedCircuit, State, default_path


def test_only_the_owner_can_read_the_file(state, path):
    state.set_due("x", 1.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_damaged_file_is_set_aside_and_the_circuits_start_closed(path):
    path.parent.mkdir()
    path.write_bytes(b"not a database " * 1_000)
    with State(path) as state:
        assert state.circuits() == []
    assert path.with_name("hooks.db.damaged").read_bytes().startswith(b"not a database")


def test_a_file_of_an_older_release_loses_its_circuits_and_works(path):
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as older:
        older.execute(
            "CREATE TABLE circuits (circuit_id TEXT PRIMARY KEY, family TEXT, saved BLOB, last_error TEXT, used REAL)"
        )
        older.execute("INSERT INTO circuits VALUES ('a', NULL, x'', NULL, 1)")
        older.execute("CREATE TABLE times (name TEXT PRIMARY KEY, at REAL)")
        older.commit()
    with State(path) as state:
        assert state.circuits() == []
        state.keep_circuit(SavedCircuit("b", None, b"", "no route", "transport"), 1.0)
    with State(path) as state:
        assert state.circuits() == [SavedCircuit("b", None, b"", "no route", "transport")]


def test_a_file_that_can_not_be_opened_is_an_error(path):
    path.mkdir(parents=True)
    with pytest.raises(Exception, match="unable to open"):
        State(path)


def test_a_transaction_that_fails_changes_nothing(state):
    def half_done():
        with state.transaction():
            state.keep_circuit(SavedCircuit("a", None, b"", None), 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()
    assert state.circuits() == []


def test_the_oldest_rows_go_when_there_are_too_many(state, monkeypatch):
    monkeypatch.setattr("switchgear_cli.hook.state.MOST_ROWS", MOST_ROWS | {"circuits": 3})
    for number in range(5):
        state.keep_circuit(SavedCircuit(f"tool-{number}", None, b"", None), float(number))
    assert [row.circuit_id for row in state.circuits()] == ["tool-2", "tool-3", "tool-4"]


def test_rows_that_nothing_used_for_a_day_go_at_the_end_of_any_session(state):
    state.keep_circuit(SavedCircuit("old", None, b"", None), 0.0)
    state.keep_circuit(SavedCircuit("new", None, b"", None), KEPT_S)
    state.forget_session("s", KEPT_S + 1)
    assert [row.circuit_id for row in state.circuits()] == ["new"]


def test_the_default_file_is_in_the_users_folder_for_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "switchgear" / "claude-code-3.db"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local/state/switchgear/claude-code-3.db"
