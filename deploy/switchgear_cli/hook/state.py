"""The circuits of one machine, in a SQLite file that all hook processes share.

Claude Code starts a process per event, so nothing stays in memory. This module needs only the standard library: most events are
about a tool without failures, and a process that only finds that out must be quick.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

FORMAT: Final = 3
"""Part of the file's name. Another release with other tables has a file of its own."""
BUSY_S: Final = 2.0
"""Longest wait for another process's transaction."""
KEPT_S: Final = 86_400.0
"""Rows that nothing has used for this long are removed when a session starts or ends."""
MOST_ROWS: Final[Mapping[str, int]] = {
    "circuits": 1_000,
    "callers": 1_000,
    "permits": 10_000,
    "refusals": 1_000,
    "told": 1_000,
    "fleet": 5_000,
    "outbox": 10_000,
}
"""The most rows of each table. The oldest go first."""
_TABLES: Final = f"""
PRAGMA journal_mode = WAL;
DROP TABLE IF EXISTS circuits;
CREATE TABLE IF NOT EXISTS circuits (
    circuit_id TEXT PRIMARY KEY, family TEXT, saved BLOB, last_error TEXT, last_error_class TEXT, used REAL
);
CREATE TABLE IF NOT EXISTS callers (session TEXT, tool TEXT, run BLOB, used REAL, PRIMARY KEY (session, tool));
CREATE TABLE IF NOT EXISTS permits (call TEXT PRIMARY KEY, session TEXT, permit BLOB, used REAL);
CREATE TABLE IF NOT EXISTS refusals (session TEXT PRIMARY KEY, count INTEGER, used REAL);
CREATE TABLE IF NOT EXISTS told (session TEXT PRIMARY KEY, said BLOB, used REAL);
CREATE TABLE IF NOT EXISTS fleet (circuit_id TEXT PRIMARY KEY, record TEXT, used REAL);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, event TEXT, used REAL);
CREATE TABLE IF NOT EXISTS times (name TEXT PRIMARY KEY, at REAL);
PRAGMA user_version = {FORMAT};
"""
"""A file of another release, which only the option for the file can name, loses its circuits."""
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SavedCircuit(NamedTuple):
    """A circuit that is not closed, or has failures. Every other circuit has no row."""

    circuit_id: str
    family: str | None
    """The family of the tool. Of a family's circuit: its own name."""
    saved: bytes
    """A snapshot of the breaker."""
    last_error: str | None
    last_error_class: str | None = None


def rejected(circuit_id: str) -> str:
    """Return the name among ``callers`` for the calls of a session that a tool or server rejected with class ``auth``."""
    return f"{circuit_id}|auth"


def default_path() -> Path:
    """Return the file in the user's folder for state."""
    root = os.environ.get("XDG_STATE_HOME") or ""
    folder = Path(root) if os.path.isabs(root) else Path.home() / ".local" / "state"  # noqa: PTH117 - "" has no Path
    return folder / "switchgear" / f"claude-code-{FORMAT}.db"


class State:
    """The shared file. Use it in a ``with`` block. Only its owner can read it.

    Args:
        path: The file. It and its folder are made.

    Raises (every method):
        sqlite3.Error, OSError: The file can't be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._database = self._open()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in _DAMAGE:
                raise
            self._set_aside()
            self._database = self._open()

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(0o600)  # SQLite would make it readable by all
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                database.executescript(_TABLES)
            database.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self) -> None:
        for ending in ("-wal", "-shm"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        self.path.replace(f"{self.path}.damaged")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the file alone: no other process reads and changes a circuit at the same time."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    # -- circuits, callers, permits -----------------------------------------------------------------------------------

    def quiet(self, circuit_ids: Iterable[str], session: str, tool: str, call: str) -> bool:
        """Return whether nothing is known that could change a decision: no failures, no permit, no record of the fleet."""
        ids = tuple(circuit_ids)
        marks = ", ".join("?" * len(ids))
        found = self._database.execute(
            f"SELECT EXISTS (SELECT 1 FROM circuits WHERE circuit_id IN ({marks}))"  # noqa: S608 - only question marks
            f" OR EXISTS (SELECT 1 FROM fleet WHERE circuit_id IN ({marks}))"
            f" OR EXISTS (SELECT 1 FROM callers WHERE session = ? AND tool IN (?, {marks}))"
            " OR EXISTS (SELECT 1 FROM permits WHERE call = ?)",
            (*ids, *ids, session, tool, *map(rejected, ids), call),
        ).fetchone()
        return not found[0]

    def circuits(self, circuit_id: str | None = None, family: str | None = None) -> list[SavedCircuit]:
        """Return a tool's circuit and those of its family, with the family's other tools. Without arguments, return all."""
        query = "SELECT circuit_id, family, saved, last_error, last_error_class FROM circuits"
        if circuit_id is None:
            rows = self._database.execute(query)
        else:
            rows = self._database.execute(f"{query} WHERE circuit_id = ? OR family = ?", (circuit_id, family))
        return [SavedCircuit(*row) for row in rows]

    def keep_circuit(self, circuit: SavedCircuit, now: float) -> None:
        """Write a circuit."""
        self._replace("circuits", (*circuit, now))

    def drop_circuit(self, circuit_id: str) -> None:
        """Remove a circuit that is closed and without failures."""
        self._database.execute("DELETE FROM circuits WHERE circuit_id = ?", (circuit_id,))

    def caller(self, session: str, tool: str) -> bytes | None:
        """Return the caller's errors in a row."""
        found: bytes | None = self._value("SELECT run FROM callers WHERE session = ? AND tool = ?", session, tool)
        return found

    def keep_caller(self, session: str, tool: str, run: bytes | None, now: float) -> None:
        """Write the caller's errors in a row, or remove them."""
        if run is None:
            self._database.execute("DELETE FROM callers WHERE session = ? AND tool = ?", (session, tool))
        else:
            self._replace("callers", (session, tool, run, now))

    def drop_rejected(self, session: str, family: str) -> None:
        """Remove the rejected calls in a row of a server's tools."""
        query = "DELETE FROM callers WHERE session = ? AND substr(tool, 1, ?) = ? AND substr(tool, ?) = ?"
        start, end = f"{family}:", rejected("")
        self._database.execute(query, (session, len(start), start, -len(end), end))

    def keep_permit(self, call: str, session: str, permit: bytes, now: float) -> None:
        """Write what a call that may be made holds."""
        self._replace("permits", (call, session, permit, now))

    def take_permit(self, call: str) -> bytes | None:
        """Return what a call holds, and remove it: only its first report counts."""
        found: bytes | None = self._value("SELECT permit FROM permits WHERE call = ?", call)
        self._database.execute("DELETE FROM permits WHERE call = ?", (call,))
        return found

    def count_refusal(self, session: str, now: float) -> int:
        """Count a refused call of a session, and return the number."""
        count = 1 + (self._value("SELECT count FROM refusals WHERE session = ?", session) or 0)
        self._replace("refusals", (session, count, now))
        return count

    def forget_refusals(self, session: str) -> None:
        """Count the session's refused calls from zero again."""
        self._database.execute("DELETE FROM refusals WHERE session = ?", (session,))

    def told(self, session: str) -> bytes | None:
        """Return what a session was told about tools that are down."""
        found: bytes | None = self._value("SELECT said FROM told WHERE session = ?", session)
        return found

    def keep_told(self, session: str, said: bytes, now: float) -> None:
        """Write what a session was told about tools that are down."""
        self._replace("told", (session, said, now))

    def forget_session(self, session: str, now: float) -> None:
        """Remove what belongs to a session, and what nothing has used for a day."""
        for table in ("callers", "permits", "refusals", "told"):
            self._database.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - our own names
        for table in ("circuits", "callers", "permits", "refusals", "told"):
            self._database.execute(f"DELETE FROM {table} WHERE used < ?", (now - KEPT_S,))  # noqa: S608

    # -- the fleet ----------------------------------------------------------------------------------------------------

    def is_due(self, name: str, now: float) -> bool:
        """Return whether the time kept under ``name`` has come. It is due if there is none."""
        at = self._value("SELECT at FROM times WHERE name = ?", name)
        return at is None or at <= now or at > now + KEPT_S  # the clock was set back

    def set_due(self, name: str, at: float) -> None:
        """Keep a time under a name."""
        self._database.execute("INSERT OR REPLACE INTO times VALUES (?, ?)", (name, at))

    def fleet(self, circuit_ids: Iterable[str] | None = None) -> dict[str, str]:
        """Return the fleet's records by circuit id, all of them or those of some circuits."""
        rows = self._database.execute("SELECT circuit_id, record FROM fleet").fetchall()
        return {name: record for name, record in rows if circuit_ids is None or name in circuit_ids}

    def replace_fleet(self, records: Mapping[str, str], now: float) -> None:
        """Write the fleet's records in place of those that were known."""
        with self.transaction():
            self._database.execute("DELETE FROM fleet")
            rows = [(name, record, now) for name, record in records.items()][: MOST_ROWS["fleet"]]
            self._database.executemany("INSERT INTO fleet VALUES (?, ?, ?)", rows)

    # -- events for Kafka ---------------------------------------------------------------------------------------------

    def post(self, event: Mapping[str, Any], now: float) -> None:
        """Leave an event for the process that sends them."""
        self._replace("outbox", (None, json.dumps(event), now))

    def posted(self, most: int) -> list[tuple[int, str]]:
        """Return the oldest events that wait, with their numbers."""
        return self._database.execute("SELECT id, event FROM outbox ORDER BY id LIMIT ?", (most,)).fetchall()

    def sent(self, last: int) -> None:
        """Remove the events up to a number."""
        self._database.execute("DELETE FROM outbox WHERE id <= ?", (last,))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _value(self, query: str, *arguments: str) -> Any:
        row = self._database.execute(query, arguments).fetchone()
        return None if row is None else row[0]

    def _replace(self, table: str, row: tuple[Any, ...]) -> None:
        marks = ", ".join("?" for _ in row)
        self._database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)  # noqa: S608 - our own names
        (count,) = self._database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        if count > MOST_ROWS[table]:
            oldest = f"SELECT rowid FROM {table} ORDER BY used LIMIT ?"  # noqa: S608
            self._database.execute(
                f"DELETE FROM {table} WHERE rowid IN ({oldest})",  # noqa: S608
                (count - MOST_ROWS[table],),
            )
