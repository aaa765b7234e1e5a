"""ToolFunction: what kind of callable a guard was given, and what belongs to its parameters."""

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
    """A callable as it is called, and how."""

    call: Callable[..., Any]
    kind: Kind
    receiver: bool
    """The first argument is the object or class it is a method of: no parameter of the call."""
    name: str
    """For people: its qualified name."""

    def parameters(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``args`` without the receiver."""
        return args[1:] if self.receiver else args


def examine(function: Callable[..., Any]) -> ToolFunction:
    """Look at a function, a method, a partial of one, or an object with ``__call__``."""
    bare = unwrapped(function)
    return ToolFunction(function, _kind(bare), bare is function and _is_method(function), name_of(bare))


def unwrapped(function: Any) -> Any:
    """What a partial calls, of a partial too; anything else is what it is."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable[..., Any]) -> str:
    """Its qualified name; of an object that is callable, its class's."""
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
    """A function written in a class body whose first parameter has a receiver's name (a static method has none).

    A bound method has its receiver already. A decorator's wrapper that takes whatever comes is looked through.
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
