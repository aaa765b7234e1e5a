"""Decide what a reader's query may use, from the syntax tree of the engine's own analyser.

``EXPLAIN QUERY TREE`` names each function, table and table function. It also names each reference to a function: called, named
(``arrayMap(file, …)``) or applied (``* APPLY(file)``), also in a lambda, a default or a window. The tree is checked twice: before the
analyser resolves anything, when no part of the query has run, and after it.

ClickHouse's ``readonly = 1`` is not enough in the embedded engine 26.9. It stops ``INSERT``, DDL and most table functions. It does
not stop the scalar ``file('…')``, ``INTO OUTFILE``, ``DESCRIBE file('…')``, ``sqlite('…')`` (which creates the file), ``s3('…')``
(which uses the network) or a second statement after ``;``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from switchgear_api.readonly.catalog import TABLE_FUNCTIONS, Catalog

_NODES: Final = (
    "QUERY", "UNION", "LIST", "MATCHER", "FUNCTION", "IDENTIFIER", "CONSTANT", "TABLE_FUNCTION", "LAMBDA", "ARGUMENTS",
    "ARGUMENT", "SORT", "WINDOW", "INTERPOLATE", "JOIN", "CROSS JOIN", "ARRAY_JOIN", "APPLY COLUMN TRANSFORMER",
    "EXCEPT COLUMN TRANSFORMER", "REPLACE COLUMN TRANSFORMER",
)  # fmt: skip
_SECTIONS: Final = (
    "ARGUMENTS", "EXPRESSION", "FILL FROM", "FILL STALENESS", "FILL STEP", "FILL TO", "FRAME BEGIN OFFSET",
    "FRAME END OFFSET", "GROUP BY", "HAVING", "INTERPOLATE", "INTERPOLATE_EXPRESSION", "JOIN EXPRESSION",
    "JOIN EXPRESSIONS", "JOIN TREE", "LEFT TABLE EXPRESSION", "LIMIT", "LIMIT BY", "LIMIT BY LIMIT", "LIMIT BY OFFSET",
    "OFFSET", "ORDER BY", "PARAMETERS", "PARTITION BY", "PREWHERE", "PROJECTION", "QUALIFY", "QUERIES",
    "RIGHT TABLE EXPRESSION", "TABLE EXPRESSION", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
_LINE: Final = re.compile(
    rf" *(?:(?:{'|'.join(_NODES)}) id: \d+(?:, .*)?|(?:{'|'.join(_SECTIONS)})"
    r"|EXPRESSION .*|REPLACEMENTS \d+|REPLACEMENT NAME .* EXPRESSION|) ?"
)
"""Every line of a tree that is not resolved. A query with another line is refused, because the rules do not know it."""
_SETTINGS: Final = re.compile(r"^ *SETTINGS ", re.MULTILINE)
_CONSTANT: Final = re.compile(r"^ *CONSTANT id: \d+, .*constant_value_type: [^:\n]*$", re.MULTILINE)
"""A literal, whose text names nothing. Only a literal has this end of the line, whatever its alias is."""
_NAMED: Final = re.compile(r"((?:table_)?function_name|table_name|identifiers?): (?=([^,\n]{0,300}))")
"""An attribute and what it names. The name is not consumed, so that an alias that looks like an attribute hides none."""
_RECURSION: Final = re.compile(r"_temporary_and_external_tables\._tmp_[0-9a-f-]{36}")
"""Where the engine keeps the rows of WITH RECURSIVE. A query can't name it, because the database is refused by its name."""
_LAMBDA: Final = re.compile(r"\bLAMBDA id: \d+, alias: (\w+)$", re.MULTILINE)
_VALUES: Final = re.compile(r"table_function_name: values\n", re.ASCII | re.IGNORECASE)
_FIRST_ARGUMENT: Final = re.compile(
    r" +ARGUMENTS\n +LIST id: \d+, nodes: \d+\n"
    r" +(?:FUNCTION id: \d+, function_name: tuple,|CONSTANT id: \d+, constant_value: (.*), constant_value_type: )"
)
_STRUCTURE: Final = re.compile(r"'(?:[\w\s,()=.+/-]|\\')*'", re.ASCII)
_DECLARED: Final = re.compile(
    r"\b(?:ALIAS|AUTO_INCREMENT|CODEC|COLLATE|COMMENT|DEFAULT|EPHEMERAL|MATERIALIZED|PRIMARY|SETTINGS|STATISTICS|TTL)\b",
    re.IGNORECASE,
)
"""What makes a column more than a name and a type. An ALIAS, for example, is an expression that runs on a read."""


def violation(tree: str, catalog: Catalog) -> str | None:
    """Return why a query may not be analysed further, as a sentence; None if it may.

    Args:
        tree: Its ``EXPLAIN QUERY TREE run_passes = 0``: what its text names, before anything is resolved or run.
        catalog: What the engine has.
    """
    if _SETTINGS.search(tree):
        return "SETTINGS may not be changed here."
    if any(_LINE.fullmatch(line) is None for line in tree.removesuffix("\n").split("\n")):
        return "This query cannot be checked: use plain names, without line breaks in them."
    if not all(_plain_values(tree, found.end()) for found in _VALUES.finditer(tree)):
        return "The table function values() takes literals here, and a structure of plain names and types."
    lambdas = frozenset(_LAMBDA.findall(tree))
    return next((found for kind, name in _names(tree) if (found := _named(kind, name, lambdas, catalog))), None)


def resolved_violation(tree: str, catalog: Catalog) -> str | None:
    """Return why a query may not run, as a sentence; None if it may.

    Args:
        tree: Its ``EXPLAIN QUERY TREE run_passes = 1, passes = 1``: what the analyser found for each name.
        catalog: What the engine has.
    """
    for kind, name in _names(tree):
        if kind == "table_name" and _RECURSION.fullmatch(name) is not None:
            continue
        problem = table_violation(name, catalog) if kind == "table_name" else _function(kind, name, catalog)
        if problem is not None:
            return problem
    return None


def table_violation(name: str, catalog: Catalog) -> str | None:
    """Return why a table may not be read, as a sentence; None if it may."""
    return None if catalog.allows_table(name) else f"The table {name} may not be read here."


def _names(tree: str) -> Iterator[tuple[str, str]]:
    """Yield each attribute that names something, once. Lines of literals are left out."""
    seen: set[tuple[str, str]] = set()
    for found in _NAMED.finditer(_CONSTANT.sub("", tree)):
        named = (found[1], found[2])
        if named not in seen:
            seen.add(named)
            yield named


def _named(kind: str, name: str, lambdas: frozenset[str], catalog: Catalog) -> str | None:
    if kind == "function_name" and name in lambdas and name.lower() not in catalog.functions:
        return None  # WITH x -> x + 1 AS name: the tree has the lambda itself too
    if kind in {"function_name", "table_function_name"}:
        return _function(kind, name, catalog)
    if catalog.refuses_reference(name):
        return f"{name} is a function that may not be used here; as a name of your own, choose another."
    return f"The table {name} may not be read here." if catalog.refuses_name(name) else None


def _function(kind: str, name: str, catalog: Catalog) -> str | None:
    if kind == "table_function_name" and name.lower() not in TABLE_FUNCTIONS:
        return f"The table function {name}() may not be used here."
    if kind == "function_name" and not catalog.allows_function(name):
        return f"The function {name}() may not be used here."
    return None


def _plain_values(tree: str, place: int) -> bool:
    """Return whether the first argument of ``values`` is harmless. It may be a structure of columns, which is SQL of its own."""
    found = _FIRST_ARGUMENT.match(tree, place)
    if found is None or found[1] is None or not found[1].startswith("'"):
        return found is not None
    return _STRUCTURE.fullmatch(found[1]) is not None and _DECLARED.search(found[1]) is None
