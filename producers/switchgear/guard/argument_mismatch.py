"""Arguments that don't fit a function.

The answers come from the function's code object. A ``__signature__`` may be wrong, and ``inspect`` takes as long as the rest
of the call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from switchgear.fallback.registry import guarded_by

_PLACEHOLDER: Final = getattr(functools, "Placeholder", object())
"""Python 3.14: the positions of the arguments aren't known here."""
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def misfit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return why ``function`` can't be called with these arguments.

    Returns:
        None if it can, or if that isn't known: what a wrapper passes on, or what C code takes.
    """
    bare, (args, kwargs) = _unfolded(function, (args, kwargs))
    if not isinstance(bare, FunctionType):
        return None
    code, given = bare.__code__, len(args)
    most, only_by_position = code.co_argcount, code.co_posonlyargcount
    positional = code.co_varnames[:most]
    by_name = code.co_varnames[most : most + code.co_kwonlyargcount]
    if given > most and not code.co_flags & CO_VARARGS:
        return f"it takes {most} arguments by position, not {given}"
    twice = next((name for name in positional[only_by_position:given] if name in kwargs), None)
    if twice is not None:
        return f"it would get {twice} twice"
    open_to_names = {*positional[max(given, only_by_position) :], *by_name}
    if not code.co_flags & CO_VARKEYWORDS:
        unknown = next((name for name in kwargs if name not in open_to_names), None)
        if unknown is not None:
            return f"it has no {unknown!r:.100}"
    defaults = bare.__kwdefaults__ or {}
    needed = (
        *positional[given : most - len(bare.__defaults__ or ())],
        *(name for name in by_name if name not in defaults),
    )
    missing = next((name for name in needed if name not in kwargs or name not in open_to_names), None)
    return None if missing is None else f"it would get no {missing}"


def _unfolded(function: Any, given: Arguments) -> tuple[Any, Arguments]:
    """Return the Python function that is called in the end, and its arguments: of a partial, a method, an object, a guard."""
    args, kwargs = given
    while True:
        if isinstance(function, functools.partial):
            if any(one is _PLACEHOLDER for one in function.args):
                return None, given
            args, kwargs = function.args + args, {**function.keywords, **kwargs}
            function = function.func
        elif isinstance(function, MethodType):
            args, function = (function.__self__, *args), function.__func__
        elif (guarded := guarded_by(function)) is not None:
            function = guarded.tool.call
        elif isinstance(call := getattr(type(function), "__call__", None), FunctionType):  # noqa: B004 - its code is wanted
            args, function = (function, *args), call
        else:
            return function, (args, kwargs)


_OURS: Final = "switchgear.guard."
"""Our modules that call functions. A function that was entered leaves a frame of its own below these."""
_OF_A_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


def is_argument_mismatch(function: Any, error: BaseException) -> bool:
    """Return whether calling ``function`` raised ``error`` because its arguments don't fit. In doubt, return False."""
    if not isinstance(error, TypeError) or _code(function) is None:
        return False
    trace = error.__traceback__
    while trace is not None:  # all frames: the last is ours too if the tool called a guarded function wrongly
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(_OURS):
            return False
        trace = trace.tb_next
    return error.__traceback__ is not None


def is_awaitable_argument_mismatch(function: Any, error: BaseException) -> bool:
    """The same for a call that was awaited at once. Only a coroutine function surely leaves a frame when it is awaited."""
    code = _code(function)
    return code is not None and bool(code.co_flags & _OF_A_COROUTINE) and is_argument_mismatch(function, error)


def _code(function: Any) -> CodeType | None:
    """Return the code of the frame that ``function`` would leave; None for C code, which leaves none."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif (guarded := guarded_by(function)) is not None:  # its wrapper's frame is ours
            function = guarded.tool.call
        else:
            break
    call = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004 - its code is wanted
    code = getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None
