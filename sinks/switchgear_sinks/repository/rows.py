"""Between rows of ``tool_metrics`` and the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from switchgear_schemas.execution import ToolMetric

COLUMNS: Final = tuple(ToolMetric.model_fields)
"""A row has every field of the contract, under the same name."""
_EMPTY_MEANS_ABSENT: Final = frozenset(
    name for name, field in ToolMetric.model_fields.items() if field.default is None and not field.is_required()
)


def to_metric(row: Mapping[str, Any]) -> ToolMetric:
    """Make the contract's model of a row; columns the contract does not name are left out."""
    values = {name: row[name] for name in COLUMNS if name in row}
    for name in _EMPTY_MEANS_ABSENT & values.keys():
        if values[name] == "":
            values[name] = None
    metadata = values.get("metadata")
    if isinstance(metadata, str):
        values["metadata"] = _object(metadata)
    return ToolMetric.model_validate(values)


def to_json_line(metric: ToolMetric) -> bytes:
    """The row as ClickHouse reads it: the same bytes an emitter would have sent."""
    return msgspec.json.encode(metric.model_dump(mode="json"))


def _object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {"raw": text}
    return value if isinstance(value, dict) else {"raw": value}
