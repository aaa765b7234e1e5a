"""The JSON Schema of a struct, written as those of the pydantic models are."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of what a writer may send. A field whose default isn't null need not be null."""
    schema: dict[str, Any] = msgspec.json.schema(struct)["$defs"][struct.__name__]
    schema["description"] = inspect.cleandoc(schema["description"])
    hints = get_type_hints(struct)
    for name, field in schema["properties"].items():
        field["title"] = name.replace("_", " ").title()
        first, *others = field.get("anyOf", [field])
        if "enum" in first:  # in the order of the code, not of the alphabet
            first.update(type="string", enum=_choices(hints[name]))
        if others and field.get("default") is not None:
            field.update(field.pop("anyOf")[0])
    return schema


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for each in get_args(annotation) for choice in _choices(each)]
