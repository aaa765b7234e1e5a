"""What can be guarded, and which options a function of its kind can have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from switchgear.guard.options import GuardOptions, OptionError
from switchgear.guard.stand_ins import FUNCTION_MAY_STAND_IN, MAY_STAND_IN, guarded_by
from switchgear.guard.tool_function import ToolFunction, examine
from switchgear.guard.tool_name import check_tool

_WAYS_OUT: Final[tuple[tuple[type, str], ...]] = (
    (property, "a property; put guard below @property"),
    (functools.cached_property, "a cached property; put guard below @cached_property"),
    (functools.partialmethod, "a partialmethod; guard the method, and make it of the guarded one"),
    (type, "a class; guard a function that makes one"),
)
_MADE_BY_A_STATEMENT: Final = 1 << 9
"""CPython's flag of classes that are not built in; ``str`` and its kin are as good as functions."""


def check_guarded(tool: object, function: Any) -> None:
    """Can ``function`` be guarded as ``tool``?

    Raises:
        OptionError: it can't; with the way out.
    """
    check_tool(tool)
    for kind, way_out in _WAYS_OUT:
        if isinstance(function, kind) and not _built_in(function):
            what, _, hint = way_out.partition("; ")
            raise OptionError(
                f"What is guarded as {tool} is a function, not {what}.", hint=f"{hint[0].upper()}{hint[1:]}."
            )
    if not callable(function):
        raise OptionError(f"What is guarded as {tool} is a function, not {function!r:.100}.")


def _built_in(function: Any) -> bool:
    return isinstance(function, type) and not function.__flags__ & _MADE_BY_A_STATEMENT


def possible(tool: str, examined: ToolFunction, options: GuardOptions, asked: frozenset[str]) -> GuardOptions:
    """``options`` without the defaults that this kind of function can't have.

    Raises:
        OptionError: one of them was ``asked`` for.
    """
    streams = examined.kind in {"generator", "async_generator"}
    for name in ("cache", "single_flight"):
        if streams and getattr(options, name):
            if name in asked:
                raise OptionError(
                    f"The option {name} keeps a result, and {tool} is a generator, which has none.",
                    hint="Leave it out.",
                )
            options = options.override({"cache": None} if name == "cache" else {"single_flight": False})
    if examined.kind == "generator" and options.timeout is not None:
        if "timeout" in asked:
            raise OptionError(
                f"The option timeout can't be kept for {tool}: a generator that hangs can't be left.",
                hint="Make it an async generator.",
            )
        options = options.override({"timeout": None})
    return _fitting(tool, examined, options, asked)


def _fitting(tool: str, examined: ToolFunction, options: GuardOptions, asked: frozenset[str]) -> GuardOptions:
    """``options`` whose fallback, where it is a function, may be called in place of ``examined``."""
    fallback: Any = options.fallback
    if not callable(fallback):
        return options
    tool_of = guarded_by(fallback)
    kind = examine(fallback).kind
    if kind not in (FUNCTION_MAY_STAND_IN if tool_of is None else MAY_STAND_IN)[examined.kind]:
        if "fallback" in asked:
            raise OptionError(f"The fallback of {tool} is a {_shown(kind)}, and {tool} a {_shown(examined.kind)}.")
        return options.override({"fallback": None})
    if tool_of is not None:
        return options
    if isinstance(options.adapt, Mapping) and "adapt" in asked:
        raise OptionError(
            f"The option adapt is for tools by name, and the fallback of {tool} is a function.",
            hint="Give one function as adapt, or leave it out.",
        )
    return options if "adapt" in asked or "fallback" not in asked else options.override({"adapt": None})


def _shown(kind: str) -> str:
    return {"coroutine": "coroutine function", "async_generator": "async generator"}.get(kind, kind)
