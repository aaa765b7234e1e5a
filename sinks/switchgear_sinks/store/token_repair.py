"""Repair the record of insert tokens after the embedded engine was killed.

ClickHouse writes an insert's token to the table's ``deduplication_log_N.txt`` and renames the data's folder after that
(``MergeTreeSink::commitPart``). A kill in between leaves a token without data. The same insert is then refused as a copy, and its
rows are missing from that table. https://github.com/ClickHouse/ClickHouse/pull/110429 says that the order is known and stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger()

_PART: Final = re.compile(
    r"([^_]+)_(\d+)_(\d+)_\d+(?:_\d+)?"
)  # partition, first and last block number, level, mutation
_ADD, _DROP = "1", "2"


def forget_tokens_without_data(folder: Path) -> int:
    """Drop each token whose data no part of its table has, and return their number. Do this while no engine uses ``folder``.

    A token whose data were deleted since is dropped too. No pending insert has such a token.

    Raises:
        OSError: A log can't be read or written.
    """
    dropped = 0
    for logs in folder.glob("store/*/*/deduplication_logs"):
        files = sorted(logs.glob("deduplication_log_*.txt"), key=lambda file: int(file.stem.rpartition("_")[2]))
        tokens: dict[str, str] = {}
        for file in files:
            for line in file.read_text().splitlines():
                match line.split("\t"):
                    case [operation, part, token] if operation == _ADD:
                        tokens[token] = part
                    case [operation, _, token] if operation == _DROP:
                        tokens.pop(token, None)
        parts = _ranges(logs.parent)
        lost = {token: part for token, part in tokens.items() if not _is_covered(part, parts)}
        if lost:
            with files[-1].open("a") as stream:
                stream.writelines(f"{_DROP}\t{part}\t{token}\n" for token, part in lost.items())
            log.info("insert tokens without data dropped", table=logs.parent.name, count=len(lost))
        dropped += len(lost)
    return dropped


def _ranges(table: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the block numbers of the parts on disk by partition."""
    ranges = defaultdict(list)
    for entry in table.iterdir():
        if found := _PART.fullmatch(entry.name):
            ranges[found[1]].append((int(found[2]), int(found[3])))
    return ranges


def _is_covered(part: str, ranges: dict[str, list[tuple[int, int]]]) -> bool:
    found = _PART.fullmatch(part)
    if found is None:
        return True
    return any(first <= int(found[2]) and int(found[3]) <= last for first, last in ranges.get(found[1], ()))
