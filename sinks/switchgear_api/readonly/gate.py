"""Check whether a query may run, with the syntax tree that the engine's parser and analyser make of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_api.readonly import rules
from switchgear_api.readonly.catalog import OPENS_FILES, Catalog, Function, catalog_of
from switchgear_api.readonly.errors import SqlFailedError, SqlLimitError, SqlRefusedError, explain
from switchgear_sinks.clickhouse_errors import clickhouse_code
from switchgear_sinks.migrations.retention import literal

Ask = Callable[[str, str], bytes]
"""Runs a query under the limits of a reader, and returns its answer in a format. Raises ``ClickHouseError``."""

MAX_TREE_BYTES: Final = 4 * 1024 * 1024
"""The sink's process reads such a tree within a second or two. 20,000 columns have half of it."""
CATALOG_SECONDS: Final = 60.0
_NOT_TEXT: Final = re.compile("[\\x00\\ud800-\\udfff]")
_SYNTAX_ERROR: Final = 62
_END: Final = 424_242
"""A LIMIT around the query, which is at the end of its tree. A tree that was cut does not have it."""
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
"""One row, so that no limit on rows cuts it."""
_SELECT: Final = re.compile(r"^(?:SELECT|WITH|\()\b|^\(")
_EXPLAIN: Final = re.compile(
    r"^EXPLAIN (?:(?:PLAN|PIPELINE|ESTIMATE) )?(?:(?:indexes|actions|header) = [01](?:, )? ?)*"
)
_LOOK: Final = re.compile(r"^(?:DESCRIBE TABLE|SHOW CREATE TABLE|EXISTS TABLE) (?P<table>[\w.`]+)$")
_SHOW_TABLES: Final = "SHOW TABLES"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement whose kind may run.

    Args:
        text: All of it.
        select: The SELECT in it, whose syntax tree is still to be checked.
        table: The table it asks about, whose name is still to be checked.
    """

    text: str
    select: str | None = None
    table: str | None = None


class Gate:
    """Admits queries. It keeps the engine's catalog for :data:`CATALOG_SECONDS`.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._catalog: Catalog | None = None
        self._catalog_at = 0.0

    def admit(self, ask: Ask, sql: str) -> str:
        """Return the text to run: one statement, as ClickHouse formats it.

        No part of the query runs until every name in it is allowed. Then the analyser resolves the names, which runs constants
        and scalar subqueries.

        Raises:
            SqlRefusedError: It does something other than reading the store.
            SqlFailedError: ClickHouse can't run it.
            SqlLimitError: It is too large to be checked, or exceeds the limits.
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
        """Return the engine's catalog. It is read again after :data:`CATALOG_SECONDS`."""
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


def classify(canonical: str) -> Statement | None:
    """Return the parts of a statement that are still to be checked; None if its kind may not run at all.

    Args:
        canonical: The output of ``formatQuerySingleLine``: one statement, no comments, keywords in upper case.
    """
    if canonical == _SHOW_TABLES:
        return Statement(canonical)
    look = _LOOK.match(canonical)
    if look is not None:
        return Statement(canonical, table=look["table"].replace("`", ""))
    explain = _EXPLAIN.match(canonical)
    select = canonical[explain.end() :] if explain is not None else canonical
    return Statement(canonical, select=select) if _SELECT.match(select) else None


def _tree(ask: Ask, select: str, passes: str) -> str:
    # The text comes from ClickHouse's formatter. In brackets, the grammar has no INTO OUTFILE and no FORMAT. With these, EXPLAIN
    # itself would write the file.
    query = f"EXPLAIN QUERY TREE {passes} SELECT * FROM ({select}) LIMIT {_END}"  # noqa: S608 - names are checked first
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
