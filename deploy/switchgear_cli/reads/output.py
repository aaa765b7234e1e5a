"""Print an answer: a table for people, one JSON document for programs."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, RenderableType

from switchgear_cli.reads.formats import named
from switchgear_schemas.visible import escaped

_UNLIMITED: Final = 1_000_000
"""Columns, more than the longest row has."""


def show(renderable: RenderableType) -> None:
    """Print for people, with colours on a terminal only.

    A terminal's width is kept, or that of ``COLUMNS``. In a pipe or a file without ``COLUMNS`` every row is one line, however long.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        Console().print(renderable, highlight=False)
        return
    text = io.StringIO()
    Console(file=text, width=_UNLIMITED).print(renderable, highlight=False)
    for line in text.getvalue().splitlines():
        print(line.rstrip())


def show_json(answer: Mapping[str, Any]) -> None:
    """Print the API's answer for programs."""
    print(json.dumps(answer, ensure_ascii=False, indent=2))


def show_rows(answer: Mapping[str, Any]) -> None:
    """Print the rows of a query in full. Columns are aligned; nothing is cut or wrapped."""
    headings = [named(column["name"]) for column in answer["columns"]]
    right = [_is_number(column["type"]) for column in answer["columns"]]
    cells = [[_cell(value) for value in row] for row in answer["rows"]]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)] if headings else []
    for line in [headings, ["─" * width for width in widths], *cells] if headings else []:
        padded = [
            " " * (width - cell_len(cell)) + cell if number else cell + " " * (width - cell_len(cell))
            for cell, width, number in zip(line, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())
    if not cells:
        print("No rows.")
    if answer["truncated"]:
        print(f"… only the first {answer['row_count']} rows: add a LIMIT, or aggregate.")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return named(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escaped(json.dumps(value, ensure_ascii=False)) if isinstance(value, (list, dict)) else repr(value)


def _is_number(kind: str) -> bool:
    inner = kind.removeprefix("LowCardinality(").removeprefix("Nullable(")
    return inner.startswith(("Int", "UInt", "Float", "Decimal", "BFloat"))
