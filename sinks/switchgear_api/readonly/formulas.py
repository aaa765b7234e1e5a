"""Keep spreadsheets from reading the texts of a CSV file as formulas (CSV injection, OWASP).

Names and errors come from tools and their callers. A cell that begins with ``=`` is a formula to Excel and LibreOffice, and a formula
can start programs and send other cells away. An apostrophe in front makes the cell a text.

A spreadsheet that expects another separator, as many European ones do, ignores the quotes of all columns but the first. There a cell
begins within a text too: after a semicolon, a tab or a line break.
"""

from __future__ import annotations

import re
from typing import Final

_SIGN: Final = rb"(?:[=+\-@]|\xef\xbc[\x9d\x8b\x8d\xa0])"
"""What begins a formula: ``= + - @``, and their wide forms in UTF-8."""
_TEXT: Final = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"')
"""A field in quotes. ClickHouse quotes each text, and no number."""
_CELL: Final = re.compile(rb"(\A(?=[\t\r\n]|" + _SIGN + rb')|[;\t\r\n](?:"")*(?=' + _SIGN + rb"))")
"""Where a cell begins with a formula, in the content of a field: there goes an apostrophe."""


def without_formulas(file: bytes) -> bytes:
    """Return a CSV file of ClickHouse in which no text is a formula. Numbers stay as they are."""
    return _TEXT.sub(_as_text, file)


def _as_text(field: re.Match[bytes]) -> bytes:
    return b'"' + _CELL.sub(rb"\1'", field[1]) + b'"'
