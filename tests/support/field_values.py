"""Values for the fields of a record, made from its model: within each limit, beyond it, and of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import inspect

_MOMENTS: Final = [
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00+05:00",
    "1970-01-01T00:00:00Z",
    "1999-12-31T23:59:59Z",
    "2100-01-01T00:00:00Z",
    "2200-01-01T00:00:00Z",
    "soon",
]
_OF_KIND: Final[dict[type[inspect.Type], Callable[[Any], list[Any]]]] = {
    inspect.Metadata: lambda kind: _values(kind.type),
    inspect.UnionType: lambda kind: _values(kind.types[0]),
    inspect.StrType: lambda kind: ["x", 5, *_texts(kind.min_length, kind.max_length)],
    inspect.IntType: lambda kind: [7, kind.ge, kind.ge - 1, kind.le, kind.le + 1, 2**64, 1.5, "7", True],
    inspect.FloatType: lambda kind: [7.5, kind.ge, kind.ge - 1, 1e300, "7", True, *_most(kind.le)],
    inspect.LiteralType: lambda kind: [*kind.values, "perhaps", 1],
    inspect.BoolType: lambda _: [True, False, "perhaps"],
    inspect.UUIDType: lambda _: ["3de396af-186f-4579-9f69-2f69345cfdcd", "not-a-uuid", 7],
    inspect.DateTimeType: lambda _: _MOMENTS,
    inspect.DictType: lambda _: [{}, {"a": [1, None]}, [], "text"],
}


def values_of(record: type[msgspec.Struct]) -> dict[str, list[Any]]:
    """Return values by field. The first one is valid."""
    described = inspect.type_info(record)
    assert isinstance(described, inspect.StructType)
    return {field.name: _values(field.type) for field in described.fields}


def _values(kind: inspect.Type) -> list[Any]:
    return _OF_KIND[type(kind)](kind)


def _texts(least: int | None, most: int | None) -> list[str]:
    return [*([""] if least else []), *(["x" * most, "x" * (most + 1)] if most else [])]


def _most(most: float | None) -> list[float]:
    return [] if most is None else [most, most + 0.5]
