"""Examine a callable: its kind, its name, and whether its first argument is the object of a method."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
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
    return "generator" if inspect.isgeneratorfunction(function) else "function"


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
