"""Was a function never entered? Wrong arguments fail before its first line, and say nothing of the tool."""

from __future__ import annotations

import functools
import inspect
from types import CodeType
from typing import Any, Final

from switchgear.guard.stand_ins import guarded_by

_OURS: Final = "switchgear.guard."
"""Where functions are called: one that was entered leaves a frame of its own below these."""
_OF_A_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


def never_entered(function: Any, error: BaseException) -> bool:
    """Did the call of ``function`` end in ``error`` because its arguments don't fit? In doubt, not."""
    if not isinstance(error, TypeError) or _code(function) is None:
        return False
    trace = error.__traceback__
    while trace is not None:  # all: the last is ours too where the tool itself called a guarded function wrongly
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(_OURS):
            return False
        trace = trace.tb_next
    return error.__traceback__ is not None


def never_awaited(function: Any, error: BaseException) -> bool:
    """The same where the call and the waiting were one: what is awaited leaves a frame if a coroutine function made it."""
    code = _code(function)
    return code is not None and bool(code.co_flags & _OF_A_COROUTINE) and never_entered(function, error)


def _code(function: Any) -> CodeType | None:
    """Of the frame that it would leave; one that is written in C leaves none."""
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
