"""What a query that comes in over HTTP may use: decided on the engine's syntax tree, with a list of what is allowed.

Why ClickHouse's ``readonly = 1`` alone is not enough in the embedded engine (measured on 26.9): it stops ``INSERT``,
DDL and most table functions, but not the scalar ``file('…')``, ``INTO OUTFILE``, ``DESCRIBE file('…')``,
``sqlite('…')`` (which creates the file), ``s3('…')`` (which goes to the network) or a second statement after ``;``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from switchgear_sinks.api.readonly.syntax import Node

TABLE_FUNCTIONS: Final = frozenset(
    {"numbers", "numbers_mt", "zeros", "zeros_mt", "generateseries", "generate_series", "values"}
)
"""Table functions that only make rows up. Every other one reads files, other hosts, or tables past the checks."""

SYSTEM_TABLES: Final = frozenset(
    f"system.{name}"
    for name in ("columns", "functions", "numbers", "numbers_mt", "one", "parts", "tables", "zeros", "zeros_mt")
)
"""Of the system database, what a person who writes queries needs."""

REFUSED_CATEGORIES: Final = frozenset(
    {"AI", "Dictionary", "Embedded Dictionary", "Introspection", "Machine Learning", "Internal"}
)
"""Function categories that reach the network, dictionaries' sources, models on disk, or the server's own memory."""

ALLOWED_OTHER: Final = frozenset(
    [
        "bar",
        "bytesize",
        "countdigits",
        "currentdatabase",
        "defaultvalueofargumenttype",
        "defaultvalueoftypename",
        "digits",
        "dumpcolumnstructure",
        "errorcodetoname",
        "finalizeaggregation",
        "formatreadabledecimalsize",
        "formatreadablequantity",
        "formatreadablesize",
        "formatreadabletimedelta",
        "getsubcolumn",
        "identity",
        "ignore",
        "indexhint",
        "initializeaggregation",
        "isconstant",
        "isdecimaloverflow",
        "materialize",
        "minsamplesizecontinuous",
        "minsamplesizeconversion",
        "neighbor",
        "normalizedqueryhash",
        "normalizequery",
        "parsereadablesize",
        "parsereadablesizeornull",
        "parsereadablesizeorzero",
        "parsetimedelta",
        "rownumberinallblocks",
        "rownumberinblock",
        "runningaccumulate",
        "runningdifference",
        "runningdifferencestartingwithfirstvalue",
        "throwif",
        "tocolumntypename",
        "totypename",
        "transform",
        "variantelement",
        "varianttype",
        "version",
        "visiblewidth",
    ]
)
"""Of the category "Other", where ``file``, ``joinGet`` and ``getServerSetting`` live too, what only computes."""

_INTERNAL_ALLOWED: Final = frozenset({"_cast", "casewithexpression", "nested"})
_IN: Final = frozenset(
    {"in", "notin", "globalin", "globalnotin", "nullin", "notnullin", "globalnullin", "globalnotnullin"}
)
_PLAIN: Final = re.compile(r"^\w+$")
_QUALIFIED: Final = re.compile(r"^(\w+)\.(\w+)$")


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the engine has. Names in lower case."""

    refused_functions: frozenset[str]
    table_functions: frozenset[str]
    database: str
    """The store's own database: its tables, and no others but a few system tables, may be read."""


def refused_functions(rows: list[tuple[str, str, str, str]]) -> frozenset[str]:
    """Scalar functions that may not be used, from ``name, alias_to, categories, origin`` of ``system.functions``.

    A function that the engine gains in a later version under a category we know is allowed; under "Other", with no
    category, or made by a user (it may hide anything) it is refused until it is listed here.
    """
    verdicts = {
        name.lower(): _refused(name, categories, origin) for name, alias, categories, origin in rows if not alias
    }
    for name, alias, _categories, _origin in rows:
        if alias:
            verdicts[name.lower()] = verdicts.get(alias.lower(), True)
    return frozenset(name for name, refused in verdicts.items() if refused)


def _refused(name: str, categories: str, origin: str) -> bool:
    if origin != "System":
        return True
    groups = {group.strip() for group in categories.split(",") if group.strip()}
    if name.lower() in ALLOWED_OTHER | _INTERNAL_ALLOWED:
        return False
    return not groups or bool(groups & (REFUSED_CATEGORIES | {"Other"}))


def violation(tree: Node, catalog: Catalog) -> str | None:
    """Why the query may not run, as a sentence; None where it may.

    Args:
        tree: The syntax tree of a SELECT.
        catalog: What the engine has.
    """
    for node in tree.walk():
        problem = _problem(node, catalog)
        if problem is not None:
            return problem
    return None


def table_violation(name: str, catalog: Catalog) -> str | None:
    """Why a table may not be read, as a sentence; None where it may."""
    return _table(name, catalog)


def _problem(node: Node, catalog: Catalog) -> str | None:
    if node.kind == "Set":
        return "SETTINGS may not be changed here."
    if node.kind == "Function" and node.name.lower() in catalog.refused_functions:
        return f"The function {node.name}() may not be used here."
    if node.kind == "TableIdentifier":
        return _table(node.name, catalog)
    if node.kind == "TableExpression":
        return next((found for child in node.children if (found := _table_function(child)) is not None), None)
    if node.kind == "Function" and node.name.lower() in _IN:
        return _in_operand(node, catalog)
    return None


def _table_function(node: Node) -> str | None:
    if node.kind != "Function" or node.name.lower() in TABLE_FUNCTIONS:
        return None
    return f"The table function {node.name}() may not be used here."


def _table(name: str, catalog: Catalog) -> str | None:
    if _PLAIN.match(name):  # a table of the store, or a WITH name: the session's database is the store's
        return None
    qualified = _QUALIFIED.match(name)
    if qualified is not None and (qualified[1] == catalog.database or name in SYSTEM_TABLES):
        return None
    if qualified is not None and qualified[1].lower() == "information_schema":
        return None
    return f"The table {name} may not be read here."


def _in_operand(node: Node, catalog: Catalog) -> str | None:
    """The right side of IN may name a table or a table function."""
    operand = node.children[0].children[-1] if node.children and node.children[0].children else None
    if operand is None:
        return None
    if operand.kind == "Function" and operand.name.lower() in catalog.table_functions - TABLE_FUNCTIONS:
        return f"The table function {operand.name}() may not be used here."
    return _table(operand.name, catalog) if operand.kind == "Identifier" else None
