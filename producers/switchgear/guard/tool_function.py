"""ToolFunction: what kind of callable a guard was given, and what belongs to its parameters."""

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
    bare = function
    while isinstance(bare, functools.partial):
        bare = bare.func
    looked_at = bare if inspect.isroutine(bare) or inspect.isclass(bare) else getattr(type(bare), "__call__", bare)  # noqa: B004 - its kind is wanted
    return ToolFunction(function, _kind(looked_at), bare is function and _is_method(function), name_of(bare))


def name_of(function: Callable[..., Any]) -> str:
    """Its qualified name; of an object that is callable, its class's."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _kind(function: Any) -> Kind:
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async_generator"
    return "generator" if inspect.isgeneratorfunction(function) else "function"


def _is_method(function: Callable[..., Any]) -> bool:
    """A function written in a class body whose first parameter has a receiver's name (a static method has none)."""
    code = getattr(function, "__code__", None)
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if code is None or not owner or owner.endswith("<locals>"):
        return False
    return code.co_argcount > 0 and code.co_varnames[0] in _RECEIVERS
