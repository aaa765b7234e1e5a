"""Rows of which `make test` runs some, and `make test-all` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(rows: Iterable[Any], count: int) -> list[Any]:
    """Return the rows of a ``parametrize``: ``count`` of them, spread evenly, run always. The others are marked as deep."""
    found = list(rows)
    step = max(1, len(found) // count)
    return [row if not place % step and place // step < count else _deep(row) for place, row in enumerate(found)]


def _deep(row: Any) -> Any:
    if hasattr(row, "marks"):
        return pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.deep])
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.deep)
