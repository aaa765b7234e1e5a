"""The functions and tables of the engine that a reader's query may use. Everything that is not listed here is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

CATEGORIES: Final = frozenset(
    {
        "Arithmetic", "Arrays", "Bit", "Bitmap", "Comparison", "Conditional", "Dates and Times", "Distance", "Encoding",
        "Encryption", "Financial", "Geo", "Geo Polygon", "Hash", "IP Address", "JSON", "Logical", "Map", "Mathematical",
        "Null", "NumericIndexedVector", "QBit", "Random Number", "Rounding", "String", "String Replacement",
        "String Search", "String Splitting", "Time Series", "Time Window", "Tuple", "Type Conversion", "URL", "UUID",
    }
)  # fmt: skip
"""Categories of ``system.functions`` whose functions compute from their arguments alone.

Not listed: AI and Machine Learning (network, models on disk), Dictionary and Embedded Dictionary (their sources), Introspection and
Internal (the server's own memory), and Other, where ``file``, ``joinGet`` and ``getServerSetting`` live.
"""

FUNCTIONS: Final = frozenset(
    {
        "_cast", "bar", "bytesize", "casewithexpression", "countdigits", "currentdatabase", "defaultvalueofargumenttype",
        "defaultvalueoftypename", "digits", "dumpcolumnstructure", "errorcodetoname", "exists", "finalizeaggregation",
        "formatreadabledecimalsize", "formatreadablequantity", "formatreadablesize", "formatreadabletimedelta",
        "getsubcolumn", "grouping", "identity", "ignore", "indexhint", "initializeaggregation", "isconstant",
        "isdecimaloverflow", "lambda", "materialize", "minsamplesizecontinuous", "minsamplesizeconversion", "neighbor",
        "nested", "normalizedqueryhash", "normalizequery", "parsereadablesize", "parsereadablesizeornull",
        "parsereadablesizeorzero", "parsetimedelta", "rownumberinallblocks", "rownumberinblock", "runningaccumulate",
        "runningdifference", "runningdifferencestartingwithfirstvalue", "throwif", "tocolumntypename", "totypename",
        "transform", "untuple", "variantelement", "varianttype", "version", "visiblewidth",
    }
)  # fmt: skip
"""Functions of the categories Other and Internal that only compute, and names that the analyser itself resolves."""

WITHOUT_ARGUMENTS: Final = frozenset(
    {"current_user", "currentuser", "hostname", "query_id", "queryid", "revision", "tid", "uptime", "user"}
)
"""Refused functions whose names are common names of columns. They take no arguments, so ``arrayMap`` can't call them."""

REFUSED_AGGREGATES: Final = frozenset({"aggthrow", "flamegraph"})
"""A test of the engine, and addresses of the server's memory. Every other aggregate function only reads its arguments."""

TABLE_FUNCTIONS: Final = frozenset(
    {
        "generate_series", "generateseries", "numbers", "numbers_mt", "primes", "sqlstandardvalues", "values", "zeros",
        "zeros_mt",
    }
)  # fmt: skip
"""Table functions that only generate rows. Others read files, other hosts, or tables past the checks."""

TABLES: Final = frozenset(
    {
        *(f"system.{name}" for name in ("columns", "functions", "numbers", "numbers_mt", "one", "parts", "tables")),
        *("system.zeros", "system.zeros_mt"),
        *(f"information_schema.{name}" for name in ("columns", "key_column_usage", "schemata", "tables", "views")),
    }
)
"""Tables outside of the store that are useful for writing queries, in lower case. None shows the queries of others."""

OPENS_FILES: Final = frozenset({"Overlay", "Filesystem"})
"""Database engines in which a table's name may be the path of a file."""

_YES: Final = "1"
_PATH: Final = re.compile(r"[/.~\\]|\w+:/")
_TEMPORARY: Final = "_temporary_and_external_tables"
_STORED: Final = re.compile(r"\w+", re.ASCII)


class Function(NamedTuple):
    """A row of ``system.functions``."""

    name: str
    alias_to: str
    categories: str
    """Separated by commas."""
    origin: str
    """``System``, or how a user made it."""
    is_aggregate: str
    """``1`` for an aggregate function."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The functions and databases of the engine. Names of functions are in lower case."""

    functions: frozenset[str]
    """Every scalar function."""
    allowed: frozenset[str]
    """The scalar and aggregate functions that may be used."""
    aggregates: frozenset[str]
    """The aggregate functions that may be used."""
    combinators: tuple[str, ...]
    """Endings of aggregate functions, such as ``if`` in ``sumIf``."""
    databases: frozenset[str]
    database: str
    """The store's database. Only its tables and :data:`TABLES` may be read."""

    def allows_function(self, name: str) -> bool:
        """Return whether a scalar, aggregate or window function may be used, with or without a combinator."""
        lower = name.lower()
        return lower in self.allowed or (lower not in self.functions and self._is_aggregate(lower))

    def _is_aggregate(self, lower: str) -> bool:
        rest = lower
        while rest not in self.aggregates:
            ending = next((each for each in self.combinators if rest.endswith(each) and rest != each), None)
            if ending is None:
                return False
            rest = rest.removesuffix(ending)
        return True

    def refuses_reference(self, name: str) -> bool:
        """Return whether a plain name stands for a function that may not be used, as in ``arrayMap(file, …)``."""
        lower = name.lower()
        return lower in self.functions and lower not in self.allowed and lower not in WITHOUT_ARGUMENTS

    def allows_table(self, name: str) -> bool:
        """Return whether a table, as ``table`` or ``database.table``, may be read."""
        database, dot, table = name.rpartition(".")
        if not dot:
            return _STORED.fullmatch(table) is not None  # a table of the session's database, which is the store's
        return (database == self.database and _STORED.fullmatch(table) is not None) or name.lower() in TABLES

    def refuses_name(self, name: str) -> bool:
        """Return whether a name is a path, an address, or a table of a database that may not be read."""
        if _PATH.match(name) is not None:
            return True
        parts = name.split(".")
        if len(parts) < 2 or parts[0].lower() not in self.databases or parts[0] == self.database:
            return False
        return not self.allows_table(".".join(parts[:2]))


def catalog_of(
    functions: Iterable[Function], combinators: Iterable[str], databases: Iterable[str], database: str
) -> Catalog:
    """Return what may be used.

    A function of a later version of the engine is allowed if its category is one of :data:`CATEGORIES`. Otherwise it is refused
    until it is listed here. A function that a user created is always refused.
    """
    rows = list(functions)
    verdicts = {row.name.lower(): _allowed(row) for row in rows if not row.alias_to}
    for row in rows:
        if row.alias_to:
            verdicts[row.name.lower()] = row.origin == "System" and verdicts.get(row.alias_to.lower(), False)
    aggregates = {row.name.lower() for row in rows if row.is_aggregate == _YES}
    allowed = frozenset(name for name, verdict in verdicts.items() if verdict)
    return Catalog(
        functions=frozenset(row.name.lower() for row in rows) - aggregates,
        allowed=allowed | FUNCTIONS,
        aggregates=allowed & aggregates,
        combinators=tuple(sorted((each.lower() for each in combinators), key=len, reverse=True)),
        databases=frozenset(each.lower() for each in databases) | {_TEMPORARY},
        database=database,
    )


def _allowed(row: Function) -> bool:
    if row.origin != "System":
        return False
    name = row.name.lower()
    if row.is_aggregate == _YES:
        return name not in REFUSED_AGGREGATES
    groups = {group.strip() for group in row.categories.split(",") if group.strip()}
    return name in FUNCTIONS or (bool(groups) and groups <= CATEGORIES)
