"""Whether a query may run: what the engine's parser and analyser make of it, held against what is allowed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.api.readonly import rules
from switchgear_sinks.api.readonly.catalog import OPENS_FILES, Catalog, Function, catalog_of
from switchgear_sinks.api.readonly.failures import SqlFailedError, SqlLimitError, SqlRefusedError, explain
from switchgear_sinks.api.readonly.statement import classify
from switchgear_sinks.clickhouse_errors import clickhouse_code
from switchgear_sinks.migrations.retention import literal

Ask = Callable[[str, str], bytes]
"""Sends a query, to be answered in a format, under the limits of a reader. Raises ``ClickHouseError``."""

MAX_TREE_BYTES: Final = 4 * 1024 * 1024
"""Read within a second or two in the sink's process; 20,000 columns have half of it."""
CATALOG_SECONDS: Final = 60.0
_NOT_TEXT: Final = re.compile("[\\x00\\ud800-\\udfff]")
_SYNTAX_ERROR: Final = 62
_END: Final = 424_242
"""A LIMIT around the query, which stands at the end of its tree: a tree that was cut lacks it."""
_TAIL_BYTES: Final = 400
_NAMES: Final = "run_passes = 0"
_RESOLVED: Final = "run_passes = 1, passes = 1"
_CATALOG: Final = """
SELECT
    (SELECT groupArray([name, alias_to, categories, toString(origin), toString(is_aggregate)]) FROM system.functions),
    (SELECT groupArray(name) FROM system.aggregate_function_combinators),
    (SELECT groupArray([name, engine]) FROM system.databases),
    currentDatabase()
"""
"""One row, which no limit on rows cuts."""


class Gate:
    """Lets a query pass, or raises why not. Keeps what the engine has for :data:`CATALOG_SECONDS`.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._catalog: Catalog | None = None
        self._catalog_at = 0.0

    def admit(self, ask: Ask, sql: str) -> str:
        """The text to run: one statement, as ClickHouse formats it.

        Nothing of the query runs until every name in it is known to be allowed. Then the analyser resolves the names, which
        runs its constants and scalar subqueries.

        Raises:
            SqlRefusedError: It does something other than read the store.
            SqlFailedError: ClickHouse cannot run it.
            SqlLimitError: It is too large to be checked, or runs into the limits.
        """
        if _NOT_TEXT.search(sql) is not None:
            raise SqlFailedError("The query has characters that are not text.", hint="Send it as UTF-8, without NUL.")
        canonical = _asked(ask, f"SELECT formatQuerySingleLine({literal(sql)})", "RawBLOB").strip()
        statement = classify(canonical)
        if statement is None:
            raise SqlRefusedError(
                "Only reading is allowed here.", hint="Send one SELECT, EXPLAIN SELECT, SHOW TABLES or DESCRIBE TABLE."
            )
        catalog = self.catalog(ask)
        problem = None if statement.table is None else rules.table_violation(statement.table, catalog)
        if statement.select is not None:
            problem = rules.violation(_tree(ask, statement.select, _NAMES), catalog) or rules.resolved_violation(
                _tree(ask, statement.select, _RESOLVED), catalog
            )
        if problem is not None:
            raise SqlRefusedError(problem, hint="Read the store's own tables; SHOW TABLES lists them.")
        return statement.text

    def catalog(self, ask: Ask) -> Catalog:
        """What the engine has; asked where the answer of the last time is old."""
        now = self._clock()
        if self._catalog is None or now - self._catalog_at > CATALOG_SECONDS:
            found = json.loads(_asked(ask, _CATALOG, "JSONCompactEachRow"))
            functions, combinators, databases, database = found
            if dict(databases).get(database) in OPENS_FILES:
                raise SqlRefusedError(
                    f"The database {database} opens files by their names, so it is not open to queries.",
                    hint="Give the store a database of its own in SWITCHGEAR_CLICKHOUSE_URL.",
                )
            self._catalog = catalog_of(
                [Function(*row) for row in functions], combinators, [row[0] for row in databases], database
            )
            self._catalog_at = now
        return self._catalog


def _tree(ask: Ask, select: str, passes: str) -> str:
    # The text comes from ClickHouse's formatter. In brackets, the grammar knows neither INTO OUTFILE nor FORMAT: with them, EXPLAIN itself would write the file.
    query = f"EXPLAIN QUERY TREE {passes} SELECT * FROM ({select}) LIMIT {_END}"  # noqa: S608 - names are judged first
    try:
        tree = ask(query, "TabSeparatedRaw")
    except ClickHouseError as error:
        if clickhouse_code(error) == _SYNTAX_ERROR:
            raise SqlRefusedError(
                "Only a plain SELECT may run here, without INTO OUTFILE, FORMAT or SETTINGS after it.",
                hint="Read the store's own tables; SHOW TABLES lists them.",
            ) from None
        raise explain(error, parsing=True) from None
    if len(tree) > MAX_TREE_BYTES:
        raise SqlLimitError(
            "The query is too large to be checked.", hint="Split it, or use fewer columns and literals."
        )
    if f"constant_value: UInt64_{_END},".encode() not in tree[-_TAIL_BYTES:]:
        raise SqlRefusedError("This query cannot be checked: the engine did not show all of it.", hint="Simplify it.")
    return tree.decode("utf-8", "replace")


def _asked(ask: Ask, query: str, fmt: str) -> str:
    try:
        return ask(query, fmt).decode("utf-8", "replace")
    except ClickHouseError as error:
        raise explain(error, parsing=True) from None
