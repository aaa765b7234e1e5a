"""ClickHouse's errors, as numbers and as sentences."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"Code: (\d+)\b")
_PREFIX: Final = re.compile(r"^(?:.*?Code: \d+\. )?(?:DB::Exception: )+", re.DOTALL)
_NOISE: Final = re.compile(
    r"\s*\(version [^)]*\)|\s*\(for url [^)]*\)|\s*\(official build\)|\.?\s*\([A-Z][A-Z0-9_]+\)\s*\.?\s*$"
)
_LONGEST: Final = 600
_READ: Final = 20_000


def clickhouse_code(error: BaseException) -> int | None:
    """ClickHouse's number of the error (60: unknown table …); None where ClickHouse did not raise it."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    matched = _CODE.search(str(error))
    return int(matched.group(1)) if matched else None


def clickhouse_message(error: BaseException) -> str:
    """The message without its prefixes, versions and addresses, as one line."""
    text = str(error)[:_READ]
    while (stripped := _PREFIX.sub("", text, count=1)) != text:
        text = stripped
    text = " ".join(text.split())[: 2 * _LONGEST]  # a query in it may be long, and made to be slow to read
    while (stripped := _NOISE.sub("", text)) != text:
        text = stripped
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return line if line.endswith((".", "…", "!", "?")) else f"{line}."
