"""The JSON Schema of a struct, written as those of the pydantic models are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of what a writer may send. A field whose default isn't null need not be null."""
    parts: dict[str, Any] = {}

    def of_model(model: Any) -> dict[str, str]:
        schema = model.model_json_schema()
        parts.update(schema.pop("$defs", {}) | {model.__name__: schema})
        return {"$ref": f"#/$defs/{model.__name__}"}

    schemas: dict[str, Any] = msgspec.json.schema(struct, schema_hook=of_model)["$defs"]
    for each in set(_structs(struct)):
        _tidy(schemas[each.__name__], get_type_hints(each))
    schema: dict[str, Any] = schemas.pop(struct.__name__)
    parts |= schemas
    return schema | ({"$defs": parts} if parts else {})


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in an annotation, and those in their fields."""
    inner = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
        inner = tuple(get_type_hints(annotation).values())
    for each in inner:
        yield from _structs(each)


def _tidy(schema: dict[str, Any], hints: dict[str, Any]) -> None:
    schema["description"] = inspect.cleandoc(schema["description"])
    for name, field in schema["properties"].items():
        field["title"] = name.replace("_", " ").title()
        first, *others = field.get("anyOf", [field])
        if "enum" in first:  # in the order of the code, not of the alphabet
            first.update(type="string", enum=_choices(hints[name]))
        if others and field.get("default") is not None:
            field.update(field.pop("anyOf")[0])


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for each in get_args(annotation) for choice in _choices(each)]
