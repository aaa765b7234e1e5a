"""Examine a callable: its kind, its name, and whether its first argument is the object of a method."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any, Final, Literal

Kind = Literal["function", "coroutine", "generator", "async_generator"]

_RECEIVERS: Final = frozenset({"self", "cls", "mcs"})


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A callable and what is known about it."""

    call: Callable[..., Any]
    kind: Kind
    receiver: bool
    """The first argument is the object or class that it is a method of."""
    name: str
    """Its qualified name, for messages."""


def examine(function: Callable[..., Any]) -> ToolFunction:
    """Examine a function, a method, a partial of one, or an object with ``__call__``."""
    bare = unwrapped(function)
    return ToolFunction(function, _kind(bare), bare is function and _is_method(function), name_of(bare))


def unwrapped(function: Any) -> Any:
    """Return what a partial, or a partial of a partial, calls; anything else as it is."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable[..., Any]) -> str:
    """Return the qualified name of a function; of a callable object, that of its class."""
    name = getattr(function, "__qualname__", None)
    return name if name and isinstance(name, str) else type(function).__qualname__


def _kind(function: Any) -> Kind:
    found = _kind_of(function)
    if found != "function" or inspect.isroutine(function) or inspect.isclass(function):
        return found
    return _kind_of(getattr(type(function), "__call__", function))  # noqa: B004 - its kind is wanted


def _kind_of(function: Any) -> Kind:
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async_generator"
    if not inspect.isgeneratorfunction(function):
        return "function"
    code = getattr(function, "__code__", None)
    awaited = code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE  # made by types.coroutine
    return "coroutine" if awaited else "generator"


def _is_method(function: Callable[..., Any]) -> bool:
    """Return whether it is a function from a class body whose first parameter is called ``self``, ``cls`` or ``mcs``.

    A bound method has its object already. The wrapper of a decorator that takes ``*args`` is looked through.
    """
    if inspect.ismethod(function):
        return False
    code = getattr(function, "__code__", None)
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if code is None or not owner or owner.endswith("<locals>"):
        return False
    if code.co_argcount == 0 and code.co_flags & inspect.CO_VARARGS:
        inner = getattr(function, "__wrapped__", None)
        return inner is not None and _is_method(inner)
    return bool(code.co_argcount > 0 and code.co_varnames[0] in _RECEIVERS)


_PLAIN: Final = (str, bytes, int, float, bool, type(None))
_DEEPEST: Final = 5


def same_function(one: Any, other: Any, depth: int = 0) -> bool:
    """Return whether two functions are the same: by module, qualified name and what their closures hold.

    Two closures of one function may act for two users, so what they hold is compared too: text and numbers by value, the rest
    by identity. Functions made within a function compare their defaults as well. If in doubt, they are different.
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
    """Return what distinguishes ``thing`` from others of its type; nothing if that is unknown."""
    if isinstance(thing, FunctionType):
        return (thing.__module__, thing.__qualname__, *_held(thing))
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, functools.partial):
        return (thing.func, thing.args, tuple(sorted(thing.keywords.items())))
    return thing if isinstance(thing, tuple) else ()


def _held(function: FunctionType) -> tuple[Any, ...]:
    """Return what a function holds. A reloaded module makes its defaults and classes again, so they are left out."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    if "<" not in function.__qualname__:
        return tuple(_inside(cell) for name, cell in cells if name != "__class__")
    named = tuple(sorted((function.__kwdefaults__ or {}).items()))
    return (function.__defaults__, named, *(_inside(cell) for _, cell in cells))


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty: what it will hold is unknown
        return object()
