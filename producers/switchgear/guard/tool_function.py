"""What is known about a function that calls a tool: its kind, its guard, and the arguments that fit it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["function", "coroutine", "generator", "async_generator"]
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]

MARK: Final = "__switchgear__"
"""The attribute of a guarded function that holds its :class:`Guarded`."""

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


class Guarded(NamedTuple):
    """A guarded function and the rules of its calls."""

    tool: ToolFunction
    plan: Any
    """Its :class:`~switchgear.guard.call.GuardPlan`. This module can't name the type: plans are made with its help."""
    wrapper: Callable[..., Any] | None = None
    """The guarded function that carries this under :data:`MARK`. Another decorator copies the mark, and must not be passed over."""


def guarded_by(function: Any) -> Guarded | None:
    """Return what ``function`` carries if it is guarded."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, Guarded) and found.wrapper is getattr(function, "__func__", function) else None


_FUNCTIONS: Final = ("func", "coroutine", "function", "fn", "_func", "handler", "on_invoke_tool", "__wrapped__")
"""Where frameworks' tool objects keep the function of a tool: LangChain, pydantic-ai, ADK, MCP, CrewAI, Claude, OpenAI (two)."""
_WANTED: Final = frozenset(_FUNCTIONS)
_PYDANTIC_PLACES: Final = ("__dict__", "__pydantic_private__", "__pydantic_extra__")
"""Where an object of pydantic keeps its attributes."""


def guarded_inside(tool: Any) -> Guarded | None:
    """Return what a framework's tool object carries if its function is guarded: ``@tool`` above ``@gear.guard``."""
    if tool is None or isinstance(tool, (str, Mapping)) or inspect.isfunction(tool) or inspect.ismethod(tool):
        return None  # not isroutine: Agent Framework's tools are descriptors, which it takes for routines
    functions = (getattr(tool, name, None) for name in _present(tool))
    return next((found for each in functions if each is not None and (found := guarded_by(unwrapped(each)))), None)


def _present(tool: object) -> Iterable[str]:
    """Return the names of :data:`_FUNCTIONS` that ``tool`` may have.

    To ask a model of pydantic for what it lacks takes it three microseconds for each name. An agent lists its tools before each turn.
    """
    kind: Any = type(tool)
    if not hasattr(kind, "__pydantic_fields__"):
        return _FUNCTIONS
    in_classes = _in_classes(kind)
    if in_classes is None:
        return _FUNCTIONS
    found = set(in_classes)
    for place in _PYDANTIC_PLACES:
        found |= _WANTED.intersection(getattr(tool, place, None) or ())
    return [name for name in _FUNCTIONS if name in found] if found else ()


@functools.lru_cache(maxsize=512)
def _in_classes(kind: type) -> frozenset[str] | None:
    """Return the names of :data:`_FUNCTIONS` that a class of pydantic defines, or None if it computes attributes itself."""
    classes = [vars(each) for each in kind.__mro__ if each.__module__.partition(".")[0] not in {"pydantic", "builtins"}]
    if any("__getattr__" in each or "__getattribute__" in each for each in classes):
        return None
    return frozenset(name for name in _FUNCTIONS if any(name in each for each in classes))


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


def misfit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return why ``function`` can't be called with these arguments.

    Returns:
        None if it can, or if that isn't known: what a wrapper passes on, or what C code takes.
    """
    while (guarded := guarded_by(function)) is not None:
        if inspect.ismethod(function):
            args = (function.__self__, *args)
        function = guarded.tool.call
    if isinstance(getattr(function, "__signature__", None), str):  # Python 3.13 reads it, and others don't
        return None
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C
        return None
    try:
        found = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return str(error)
    for each in signature.parameters.values():  # Python 3.13.0 binds f(a=0) to f(a, /, **others), without the first a
        if each.kind is each.POSITIONAL_ONLY and each.default is each.empty and each.name not in found:
            return f"missing a required argument: {each.name!r}"
    return None


def fitted(target: ToolFunction, receiver: tuple[Any, ...], arguments: Arguments) -> Arguments | str:
    """Return what to call ``target`` with, or why it can't be called so.

    The ``receiver`` is the object that the tool is a method of. It is not among the ``arguments``.
    """
    args, kwargs = arguments
    if target.receiver:
        if not receiver:
            return f"{target.name} is a method and the call has no object"
        if not _has(receiver[0], target):
            return f"a {type(receiver[0]).__qualname__} has no {target.name}"
        args = (*receiver, *args)
    unfit = misfit(target.call, args, kwargs)
    return f"the arguments don't fit: {unfit}" if unfit else (args, kwargs)


def _has(receiver: Any, method: ToolFunction) -> bool:
    """Return whether ``method`` was written in the class of ``receiver``, or in one above it."""
    written = (method.call.__module__, method.call.__qualname__.rpartition(".")[0])
    above = (*type(receiver).__mro__, *(receiver.__mro__ if isinstance(receiver, type) else ()))
    return any((one.__module__, one.__qualname__) == written for one in above)
