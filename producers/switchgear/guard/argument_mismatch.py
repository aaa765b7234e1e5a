"""Arguments that don't fit a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
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
    # A copy of the bare function, because a ``__signature__`` attribute may be wrong.
    own = FunctionType(bare.__code__, {}, "", bare.__defaults__, bare.__closure__)
    own.__kwdefaults__ = bare.__kwdefaults__
    try:
        inspect.signature(own).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


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
