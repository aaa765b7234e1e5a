"""Python source that is generated from the models: ``python -m switchgear_schemas.generate schemas``.

The SDK's own defaults must not import pydantic, which takes longer than the rest of ``import switchgear``. So the values of a policy are a
struct, too, and this module writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass, Mode, Scope
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT, BreakerPolicy, Cusum

_NAMED: Final[dict[Any, str]] = {
    ErrorClass: "ErrorClass",
    Mode: "Mode",
    Scope: "Scope",
    Cusum: "PlainCusum",
    NoneType: "None",
}
_HEAD: Final = '''"""A policy's values without pydantic. Generated from ``switchgear_schemas.policy`` by ``make schemas``: change that module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass, Mode, Scope

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
    if origin in (tuple, frozenset):
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


def main(folder: str) -> None:
    """Write the generated modules into the package, whose folder is in ``folder``."""
    (Path(folder) / "switchgear_schemas" / "plain_policy.py").write_text(plain_policy())


if __name__ == "__main__":
    main(sys.argv[1])
