"""Are two functions the same one? Then the later one is a reload of the earlier, and may take its place."""

from __future__ import annotations

import functools
from types import CellType, FunctionType, MethodType
from typing import Any, Final

_PLAIN: Final = (str, bytes, int, float, bool, type(None))
_DEEPEST: Final = 5


def same_function(one: Any, other: Any, depth: int = 0) -> bool:
    """The same by module, qualified name and what they hold: their closures, and defaults of those made within a function.

    Two closures of one function may act for two users, so what they hold tells them apart: by identity, or by value where
    it is text or a number. In doubt they are different.
    """
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEEPEST:
        return False
    if type(one) in _PLAIN:
        return bool(one == other)
    first, second = _parts(one), _parts(other)
    if not first or len(first) != len(second):
        return False
    return all(same_function(a, b, depth + 1) for a, b in zip(first, second, strict=True))


def _parts(thing: Any) -> tuple[Any, ...]:
    """What tells ``thing`` from others of its type; nothing where that is not known."""
    if isinstance(thing, FunctionType):
        return (thing.__module__, thing.__qualname__, *_held(thing))
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, functools.partial):
        return (thing.func, thing.args, tuple(sorted(thing.keywords.items())))
    return thing if isinstance(thing, tuple) else ()


def _held(function: FunctionType) -> tuple[Any, ...]:
    """A module that is loaded again makes the defaults and the classes in it anew: they tell nothing."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    if "<" not in function.__qualname__:
        return tuple(_inside(cell) for name, cell in cells if name != "__class__")
    named = tuple(sorted((function.__kwdefaults__ or {}).items()))
    return (function.__defaults__, named, *(_inside(cell) for _, cell in cells))


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty: nobody knows what it will hold
        return object()
