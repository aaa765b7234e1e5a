"""The process that holds the engine, so that a crash of the engine is not the fuzzer's: ``python -m tests.fuzz.sql.engine``.

Arguments: the folder of the engine, and which walls stand. Each line of standard input is a statement as JSON; each answer
is ``{"outcome", "text"}``. The first answer is what the engine has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.api.readonly import ReadOnlySql, SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_sinks.api.readonly.gate import Gate
from switchgear_sinks.store import Store
from tests.support.engine import migrated_store

MAX_SECONDS = 2.0
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
    """Answer until the input ends."""
    folder, walls = Path(sys.argv[1]), sys.argv[2]
    answers = sys.stdout
    sys.stdout = sys.stderr  # the log of the migrations
    with migrated_store(folder) as store:
        _send(answers, vocabulary(store))
        run = runner(store, walls)
        for line in sys.stdin:
            outcome, text = run(json.loads(line))
            _send(answers, {"outcome": outcome, "text": text})


def runner(store: Store, walls: str) -> Callable[[str], tuple[str, str]]:
    """What answers a statement: ``first`` is the product's way; ``none`` gives it to the engine as it is."""
    sql = ReadOnlySql(store.connect, embedded=True, max_rows=100, max_seconds=MAX_SECONDS)

    def guarded(statement: str) -> tuple[str, str]:
        try:
            return "answered", msgspec.json.encode(sql.run(statement).to_dict()).decode()
        except SqlRefusedError as error:
            return "refused", str(error)
        except SqlLimitError as error:
            return "limited", str(error)
        except SqlFailedError as error:
            return "failed", str(error)

    def unguarded(statement: str) -> tuple[str, str]:
        client = store.connect({"max_execution_time": MAX_SECONDS})
        try:
            return "answered", client.raw_query(statement).decode(errors="replace")
        except ClickHouseError as error:
            return "failed", str(error)
        finally:
            client.close()

    return {"first": guarded, "none": unguarded}[walls]


def vocabulary(store: Store) -> dict[str, Any]:
    """Names of what the engine has, and of the functions that the gate refuses."""
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
