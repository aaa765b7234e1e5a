"""Which statements may run: one SELECT, or a look at the tables; decided on the text that ClickHouse itself formatted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SELECT: Final = re.compile(r"^(?:SELECT|WITH|\()\b|^\(")
_EXPLAIN: Final = re.compile(
    r"^EXPLAIN (?:(?:PLAN|PIPELINE|ESTIMATE) )?(?:(?:indexes|actions|header) = [01](?:, )? ?)*"
)
_LOOK: Final = re.compile(r"^(?:DESCRIBE TABLE|SHOW CREATE TABLE|EXISTS TABLE) (?P<table>[\w.`]+)$")
_SHOW_TABLES: Final = "SHOW TABLES"


@dataclass(frozen=True, slots=True)
class Statement:
    """What is left to check before a statement may run."""

    text: str
    select: str | None = None
    """The SELECT inside, whose syntax tree is still to be judged."""
    table: str | None = None
    """The table it asks about, whose name is still to be judged."""


def classify(canonical: str) -> Statement | None:
    """Sort a statement; None where its kind may not run at all.

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
