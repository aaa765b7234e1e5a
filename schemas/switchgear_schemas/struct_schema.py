"""The JSON Schema of a struct, written as those of the pydantic models are."""

from __future__ import annotations

from typing import Any

import msgspec


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of what a writer may send. A field whose default isn't null need not be null."""
    schema: dict[str, Any] = msgspec.json.schema(struct)["$defs"][struct.__name__]
    for name, field in schema["properties"].items():
        field["title"] = name.replace("_", " ").title()
        values = field.get("anyOf", [])
        if len(values) == 2 and field.get("default") is not None:
            field.update(field.pop("anyOf")[0])
    return schema
