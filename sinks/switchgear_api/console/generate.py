"""What the pages know of the server, written from its declarations: ``python -m switchgear_api.console.generate`` (``make schemas``).

``types.d.ts`` has the shapes of the answers, and ``assets/js/declared.js`` the limits and empty values.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from switchgear_api.console import page_shapes, shapes
from switchgear_api.console.figures import Figures
from switchgear_api.console.live import WINDOW_MINUTES
from switchgear_api.console.now import MOST_TOOLS, tool_row
from switchgear_api.console.records import no_circuit
from switchgear_schemas.enums import BROKEN

HERE: Final = Path(__file__).parent
_HEAD: Final = "/** Generated from switchgear_api.console by `make schemas`: change those modules. */\n"
_NAMED: Final[dict[Any, str]] = {
    shapes.State: "State",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "unknown",
}


def types() -> str:
    """Return the source of ``types.d.ts``."""
    words = _docstrings()
    found = [f"export type State = {_union(shapes.State)};\n"]
    for name, shape in (vars(shapes) | vars(page_shapes)).items():
        if is_typeddict(shape):
            fields = "".join(
                f"{_comment(words.get(field), '  ')}  {_field(field, annotation)};\n"
                for field, annotation in get_type_hints(shape, include_extras=True).items()
            )
            found.append(f"{_comment(words.get(name), '')}export interface {name} {{\n{fields}}}\n")
    return _HEAD + "".join(found)


def declared() -> str:
    """Return the source of ``declared.js``."""
    row: Mapping[str, Any] = tool_row(
        no_circuit("", None), "", Figures(datetime.now(UTC), 0, {}, {}, {}, {}, {}, None), None
    )
    of_record = [*get_type_hints(shapes.CircuitRecord), *get_type_hints(shapes.Advice)]
    found = (
        ("string[]", "BROKEN", "The states in which a circuit refuses calls, some or all of them.", BROKEN),
        ("number", "MOST_TOOLS", "As many tools as the API answers with.", MOST_TOOLS),
        ("number", "MINUTES", "The length of a strip.", WINDOW_MINUTES),
        ("(keyof Circuit)[]", "CIRCUIT_FIELDS", "The fields that a circuit's record brings.", of_record),
        ("Trouble", "CALM", "What a tool without trouble has.", {each: row[each] for each in _fields(shapes.Trouble)}),
        ("Tool", "EMPTY_TOOL", "A tool without a circuit and without calls.", row),
    )
    lines = [
        f"/** {words} @type {{{kind}}} */\nexport const {name} = {json.dumps(value, indent=2)};\n"
        for kind, name, words, value in found
    ]
    return f'{_HEAD}/** @import {{ Circuit, Tool, Trouble }} from "../../types.js" */\n{"".join(lines)}'


def _fields(shape: Any) -> list[str]:
    return list(get_type_hints(shape))


def _docstrings() -> dict[str, str]:
    """Return the docstrings of shapes and of their fields, by name. A field has the same one in every shape."""
    found: dict[str, str] = {}
    for each in (each for module in (shapes, page_shapes) for each in ast.parse(inspect.getsource(module)).body):
        if isinstance(each, ast.ClassDef):
            found[each.name] = ast.get_docstring(each) or ""
            for before, after in zip(each.body, each.body[1:], strict=False):
                if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
                    found[ast.unparse(before.target)] = ast.literal_eval(after.value)
    return found


def _comment(words: str | None, indent: str) -> str:
    return f"{indent}/** {words.replace('``', '`')} */\n" if words else ""


def _field(name: str, annotation: Any) -> str:
    optional = get_origin(annotation) is NotRequired
    return f"{name}{'?' if optional else ''}: {_type(get_args(annotation)[0] if optional else annotation)}"


def _type(annotation: Any) -> str:
    if annotation in _NAMED:
        return _NAMED[annotation]
    if is_typeddict(annotation):
        return str(annotation.__name__)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _union(annotation)
    if origin is Mapping:
        return f"Record<string, {_type(inner[1])}>"
    if origin is Sequence:
        kind = _type(inner[0])
        return f"({kind})[]" if "|" in kind else f"{kind}[]"
    return " | ".join(map(_type, inner))


def _union(literal: Any) -> str:
    return " | ".join(map(json.dumps, get_args(literal)))


SOURCES: Final = {"types.d.ts": types, "assets/js/declared.js": declared}


def main(folder: Path = HERE) -> None:
    """Write the files."""
    for name, source in SOURCES.items():
        (folder / name).write_text(source())


if __name__ == "__main__":
    main()
