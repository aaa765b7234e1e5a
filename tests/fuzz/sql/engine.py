"""The process with the engine, so that a crash of the engine does not end the fuzzer: ``python -m tests.fuzz.sql.engine``.

Arguments: the folder of the engine, and which walls stand. Each line of standard input is a statement as JSON; each answer
is ``{"outcome", "text"}``. The first answer is what the engine has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_api.readonly import ReadOnlySql, SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_api.readonly.gate import Gate
from switchgear_api.sandbox.process import ReaderEndedError, ReaderLimitError
from switchgear_api.sandbox.readers import ReaderClient, Readers
from switchgear_sinks.store import Store
from tests.support.engine import migrated_store

Run = Callable[[str], tuple[str, str]]
"""A function that returns the outcome of a statement and what a reader would see."""
MAX_SECONDS: Final = 2.0
SECOND_WALL_SECONDS: Final = 5.0
_VOCABULARY = {
    "functions": "SELECT name FROM system.functions",
    "aggregates": "SELECT name FROM system.functions WHERE is_aggregate",
    "higher": "SELECT name FROM system.functions WHERE higher_order = 1",
    "combinators": "SELECT name FROM system.aggregate_function_combinators",
    "table_functions": "SELECT name FROM system.table_functions",
    "tables": "SELECT concat(database, '.', name) FROM system.tables WHERE database != currentDatabase()",
    "engines": "SELECT name FROM system.table_engines UNION ALL SELECT name FROM system.database_engines",
}


def main() -> None:
    """Answer statements until the input ends."""
    folder, walls = Path(sys.argv[1]), sys.argv[2]
    answers = sys.stdout
    sys.stdout = sys.stderr  # the log of the migrations
    with migrated_store(folder) as store:
        _send(answers, vocabulary(store))
        with RUNNERS[walls](store) as run:
            for line in sys.stdin:
                try:
                    outcome, text = run(json.loads(line))
                except Exception as error:  # noqa: BLE001 - an unexpected error is a finding
                    outcome, text = "bug", repr(error)
                _send(answers, {"outcome": outcome, "text": text})


@contextmanager
def first_wall(store: Store) -> Iterator[Run]:
    """Return the gate alone. The engine behind it could open and reach everything."""
    sql = ReadOnlySql(store.connect, embedded=True, max_rows=100, max_seconds=MAX_SECONDS)

    def run(statement: str) -> tuple[str, str]:
        try:
            return "answered", json.dumps(sql.run(statement).rows)
        except SqlRefusedError as error:
            return "refused", str(error)
        except SqlLimitError as error:
            return "limited", str(error)
        except SqlFailedError as error:
            return "failed", str(error)

    yield run


@contextmanager
def second_wall(store: Store) -> Iterator[Run]:
    """Return the sandboxed process alone, which runs every statement. One process serves statements until its time is over."""
    assert store.folder is not None
    readers = Readers(store.folder, store.database, max_seconds=SECOND_WALL_SECONDS)
    client: ReaderClient | None = None

    def run(statement: str) -> tuple[str, str]:
        nonlocal client
        client = client or readers.connect()
        try:
            return "answered", client.raw_query(statement).decode(errors="replace")
        except ClickHouseError as error:
            return "failed", str(error)
        except (ReaderLimitError, ReaderEndedError) as error:
            client.close()
            client = None
            return "limited" if isinstance(error, ReaderLimitError) else "ended", str(error)

    try:
        yield run
    finally:
        readers.close()


@contextmanager
def no_wall(store: Store) -> Iterator[Run]:
    """Return an engine without gate and sandbox. It proves that the attempts work."""

    def run(statement: str) -> tuple[str, str]:
        client = store.connect({"max_execution_time": MAX_SECONDS})
        try:
            return "answered", client.raw_query(statement).decode(errors="replace")
        except ClickHouseError as error:
            return "failed", str(error)
        finally:
            client.close()

    yield run


RUNNERS: Final = {"first": first_wall, "second": second_wall, "none": no_wall}


def vocabulary(store: Store) -> dict[str, Any]:
    """Return the names of the engine's functions and tables, and of the functions that the gate refuses."""
    client = store.connect()
    try:
        names = {kind: client.raw_query(query).decode().split() for kind, query in _VOCABULARY.items()}
        catalog = Gate().catalog(lambda text, fmt: client.raw_query(text, fmt=fmt))
    finally:
        client.close()
    aggregates = set(names.pop("aggregates"))
    refused = [name for name in names["functions"] if name not in aggregates and not catalog.allows_function(name)]
    return {**names, "refused": refused}


def _send(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
