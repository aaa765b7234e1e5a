"""A change of a TOML text in place: comments and all statements that stay the same keep their bytes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_KEY: Final = r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
_KEYS: Final = re.compile(rf"\s*((?:{_KEY})(?:[ \t]*\.[ \t]*(?:{_KEY}))*)[ \t]*(=)?")
_HEADER: Final = re.compile(rf"[ \t]*\[(\[)?[ \t]*((?:{_KEY})(?:[ \t]*\.[ \t]*(?:{_KEY}))*)[ \t]*\]")
_Path = tuple[str, ...]
_LIST: Final = "[]"
"""In the path of what belongs to an array of tables."""


@dataclass(slots=True)
class _Statement:
    """One or more lines.

    Attributes:
        text: The lines.
        path: The key that they set, with that of its table. None: a blank line or a comment.
        value: Where the value begins in the text. None: the header of a table.
        table: The table that it is in.
    """

    text: str
    path: _Path | None = None
    value: int | None = None
    table: _Path = ()


def patched(text: str, value: Mapping[str, Any]) -> str:
    """Return the text with another value.

    Args:
        text: A text of TOML.
        value: What it holds then: objects, texts, numbers, truth values, and lists of them.

    Raises:
        ValueError: It can't be changed in place.
    """
    statements = list(_statements(text))
    for path, new in _changes(tomllib.loads(text), value, ()):
        _change(statements, path, new, value)
    found = "".join(each.text for each in statements)
    if tomllib.loads(found) != value:
        raise ValueError("It can't be changed in place.")
    return found


def _statements(text: str) -> Iterator[_Statement]:
    table: _Path = ()
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        try:
            tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue  # the value goes on in the next line
        header, pair = _HEADER.match(pending), _KEYS.match(pending)
        if header is not None:
            table = (*_keys(header[2]), _LIST) if header[1] else _keys(header[2])
            yield _Statement(pending, table, None, table)
        elif pair is not None and pair[2]:
            yield _Statement(pending, (*table, *_keys(pair[1])), pair.end(), table)
        else:
            yield _Statement(pending)
        pending = ""
    if pending:
        yield _Statement(pending)


def _keys(text: str) -> _Path:
    """Return the parts of a key with dots."""
    found, path = tomllib.loads(f"{text} = 0"), list[str]()
    while isinstance(found, dict):
        ((key, found),) = found.items()
        path.append(key)
    return tuple(path)


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], path: _Path) -> Iterator[tuple[_Path, Any]]:
    """Yield the paths whose values differ, with the new value: None if there is none."""
    for key in old:
        if key not in new:
            yield (*path, key), None
    for key, value in new.items():
        former = old.get(key)
        if isinstance(former, dict) and isinstance(value, dict):
            yield from _changes(former, value, (*path, key))
        elif key not in old or former != value:
            yield (*path, key), value


def _change(statements: list[_Statement], path: _Path, new: Any, whole: Mapping[str, Any]) -> None:
    around = next((each for each in statements if each.value is not None and _is_in(path, each.path or ())), None)
    if around is not None and around.path is not None and (new is not None or around.path != path):
        # The value, or the inline table that it is in.
        found: Any = whole
        for key in around.path:
            found = found[key]
        around.text = f"{around.text[: around.value]} {_written(found)}{_rest(around.text)}"
        return
    statements[:] = [each for each in statements if each.path is None or not _is_in(each.path, path)]
    if new is None:
        return
    places = [
        place
        for place, each in enumerate(statements)
        if each.path is not None and (each.path == path[:-1] if each.value is None else each.path[:-1] == path[:-1])
    ]
    if not places:
        raise ValueError("It can't be changed in place.")
    before = statements[places[-1]]
    if not before.text.endswith("\n"):
        before.text += "\n"
    name = f"{'.'.join(map(_key, path[len(before.table) :]))} ="
    statements.insert(places[-1] + 1, _Statement(f"{name} {_written(new)}\n", path, len(name), before.table))


def _rest(statement: str) -> str:
    """Return the comment after a value, and the end of the line."""
    for found in re.finditer("#", statement):
        try:
            tomllib.loads(statement[: found.start()])
        except tomllib.TOMLDecodeError:
            continue  # in a text, or within the value
        return f"  {statement[found.start() :]}"
    return "\n" if statement.endswith("\n") else ""


def _is_in(path: _Path, other: _Path) -> bool:
    return path[: len(other)] == other


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _text(text)


def _written(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_written(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ValueError("It can't be changed in place.")


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
