"""Was a function never entered? Wrong arguments fail before its first line, and say nothing of the tool."""

from __future__ import annotations

import functools
from typing import Any, Final

_OURS: Final = frozenset({"switchgear.guard.rich", "switchgear.guard.streams", "switchgear.guard.time_limit"})
"""Where functions are called: the last frame of such an error."""


def never_entered(function: Any, error: BaseException) -> bool:
    """Did the call of ``function`` end in ``error`` because its arguments don't fit? In doubt, not."""
    trace = error.__traceback__
    if not isinstance(error, TypeError) or trace is None or not _in_python(function):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__") in _OURS


def _in_python(function: Any) -> bool:
    """Would it leave a frame of its own? One that is written in C leaves none."""
    while isinstance(function, functools.partial):
        function = function.func
    return hasattr(function, "__code__") or hasattr(getattr(type(function), "__call__", None), "__code__")  # noqa: B004 - its code is wanted
