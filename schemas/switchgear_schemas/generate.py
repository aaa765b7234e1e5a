"""Source that is generated from the models: ``python -m switchgear_schemas.generate .`` in the repository.

The SDK must not import pydantic, which takes longer than the rest of ``import switchgear``. People want its conversions and errors. So a
record that both need has one model, and this module writes the other: the struct of a policy's values, and an execution's fields for pydantic.
TypeScript's type of an execution is made here too.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass, Evidence, Mode, PaceMode, Scope, ServedBy, Status
from switchgear_schemas.execution_record import Execution
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT, BreakerPolicy, Cusum

_NAMED: Final[dict[Any, str]] = {
    ErrorClass: "ErrorClass",
    Evidence: "Evidence",
    Mode: "Mode",
    PaceMode: "PaceMode",
    Scope: "Scope",
    ServedBy: "ServedBy",
    Status: "Status",
    Cusum: "PlainCusum",
    NoneType: "None",
}
_HEAD: Final = '''"""A policy's values without pydantic. Generated from ``switchgear_schemas.policy`` by ``make schemas``: change that module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass, Mode, PaceMode, Scope

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy, Cusum
'''
_TAIL: Final = '''
Policy: TypeAlias = "PlainPolicy | BreakerPolicy"
"""The rules of a circuit, as a breaker reads them."""
CusumRule: TypeAlias = "PlainCusum | Cusum"
"""The rates of a CUSUM, as a breaker reads them."""
'''


def plain_policy() -> str:
    """Return the source of ``plain_policy.py``."""
    structs = [
        _struct("PlainCusum", Cusum, "The values of a ``Cusum``."),
        _struct("PlainPolicy", BreakerPolicy, "The values of a ``BreakerPolicy``, for defaults that need no check."),
    ]
    defaults = "".join(
        f'{name}: Final = {_made("PlainPolicy", default, 0)}\n"""``{of}``."""\n'
        for name, of, default in (
            ("LOCAL_TOOLS", "LOCAL_DEFAULT", LOCAL_DEFAULT),
            ("LOCAL_FAMILIES", "LOCAL_FAMILY_DEFAULT", LOCAL_FAMILY_DEFAULT),
        )
    )
    return "\n\n".join([_HEAD, *structs, defaults]).rstrip() + "\n" + _TAIL


_EXECUTION_HEAD: Final = '''"""The fields of an execution for pydantic. Generated from ``switchgear_schemas.execution_record`` by ``make schemas``: change that module."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from switchgear_schemas.enums import ErrorClass, Evidence, ServedBy, Status


class ExecutionFields(BaseModel):
    """The fields with their limits and defaults. A field that may be null is null by default."""

'''
_LIMITS: Final = ("ge", "le", "min_length", "max_length")


def execution_fields() -> str:
    """Return the source of ``execution_fields.py``."""
    hints = get_type_hints(Execution, include_extras=True)
    fields = [_pydantic_field(each, hints[each.name]) for each in msgspec.structs.fields(Execution)]
    return _EXECUTION_HEAD + "".join(fields)


def _pydantic_field(field: msgspec.structs.FieldInfo, annotation: Any) -> str:
    given = {} if field.required else {"default": _text(field.default)}
    metas, kind = list(annotation.__metadata__), annotation.__origin__
    if NoneType in get_args(kind):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Annotated:
        metas += kind.__metadata__
    given |= {limit: _text(value) for meta in metas for limit in _LIMITS if (value := getattr(meta, limit)) is not None}
    shown = _type(kind) + (" | None" if given.get("default") == "None" else "")
    if given.keys() <= {"default"}:
        return f"    {field.name}: {shown}{' = ' + given['default'] if given else ''}\n"
    return f"    {field.name}: {shown} = Field({', '.join(f'{name}={value}' for name, value in given.items())})\n"


_TYPESCRIPT_HEAD: Final = """/** The fields of an execution. Generated from `switchgear_schemas.execution_record` by `make schemas`: change that module. */
import type { ErrorClass } from "../breaker/policy.js";
import type { Status } from "../breaker/values.js";

export interface ExecutionFields {
"""
_IN_TYPESCRIPT: Final[dict[Any, str]] = {
    bool: "boolean",
    datetime: "string",
    dict: "Readonly<Record<string, unknown>>",
    float: "number",
    int: "number",
    str: "string",
    ErrorClass: "ErrorClass",
    Status: "Status",
    UUID: "string",
}


def typescript_fields() -> str:
    """Return the source of ``execution-fields.ts``."""
    hints = get_type_hints(Execution, include_extras=True)
    fields = [
        f"  /** {hints[each.name].__metadata__[-1].description} */\n"
        f"  readonly {each.name}{'' if each.required else '?'}: {_typescript(hints[each.name])};\n"
        for each in msgspec.structs.fields(Execution)
    ]
    return f"{_TYPESCRIPT_HEAD}{''.join(fields)}}}\n"


def _typescript(annotation: Any) -> str:
    """Return a field's type in TypeScript, without null: an event has no field for it."""
    if (known := _IN_TYPESCRIPT.get(annotation) or _IN_TYPESCRIPT.get(get_origin(annotation))) is not None:
        return known
    inner = get_args(annotation)
    return " | ".join(map(_text, inner)) if get_origin(annotation) is Literal else _typescript(inner[0])


def _struct(name: str, model: type[BaseModel], docstring: str) -> str:
    fields = [f"    {field}: {_type(info.annotation)} = {_value(info)}\n" for field, info in model.model_fields.items()]
    return f'class {name}(Struct, frozen=True, kw_only=True):\n    """{docstring}"""\n\n{"".join(fields)}'


def _type(annotation: Any) -> str:
    """Return an annotation without the limits that only a check needs."""
    if annotation in _NAMED:
        return _NAMED[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is None:
        return str(annotation.__name__)
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(_text, inner))}]"
    if origin in (dict, frozenset, tuple):
        return f"{origin.__name__}[{', '.join('...' if each is ... else _type(each) for each in inner)}]"
    return " | ".join(map(_type, inner))


def _value(info: FieldInfo) -> str:
    return "DEFAULT_COUNTED" if info.default is DEFAULT_COUNTED else _text(info.default)


def _text(value: object) -> str:
    """Return a constant as ruff formats it."""
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(map(_text, sorted(value)))}}})"
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:_}" if type(value) is int else repr(value)


def _made(name: str, model: BaseModel, depth: int) -> str:
    """Return the call that makes a struct with the values of ``model``. Defaults are left out."""
    indent = "    " * (depth + 1)
    lines = [
        f"{indent}{field}={_made('PlainCusum', value, depth + 1) if isinstance(value, Cusum) else _text(value)},\n"
        for field, value in model
        if value != type(model).model_fields[field].default
    ]
    return f"{name}(\n{''.join(lines)}{'    ' * depth})"


SOURCES: Final = {
    "schemas/switchgear_schemas/plain_policy.py": plain_policy,
    "schemas/switchgear_schemas/execution_fields.py": execution_fields,
    "producers/typescript/src/emitter/execution-fields.ts": typescript_fields,
}


def main(repository: str) -> None:
    """Write the generated modules into the repository."""
    for name, source in SOURCES.items():
        (Path(repository) / name).write_text(source())


if __name__ == "__main__":
    main(sys.argv[1])
