"""Put a function behind its circuit."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from switchgear.arguments import impossible
from switchgear.fallback.registry import FUNCTION_MAY_STAND_IN, MARK, MAY_STAND_IN, Guarded, StandIn, guarded_by
from switchgear.guard.fast_path import plain_async_guard, plain_guard
from switchgear.guard.options import GuardOptions, OptionError, Overrides
from switchgear.guard.pipeline import arun, compile_plan, run
from switchgear.guard.streams import guarded_astream, guarded_stream
from switchgear.guard.tool_function import ToolFunction, examine
from switchgear.guard.tool_name import check_tool

if TYPE_CHECKING:
    from switchgear.guard.call import GuardPlan
    from switchgear.guard.runtime import Runtime


_NO_OPTIONS: Final = GuardOptions()


def guarded(
    runtime: Runtime,
    tool: str,
    function: Any,
    options: GuardOptions,
    *,
    asked: frozenset[str],
    group: dict[str, StandIn] | None = None,
    static: bool = False,
) -> Any:
    """Return ``function`` behind ``tool``'s circuit, with its kind, name, signature and docs.

    Args:
        runtime: What the client's calls share.
        tool: The circuit's name.
        function: What to guard.
        options: All options.
        asked: The names of the options that were given here. The others are defaults, left out where they are impossible.
        group: The functions that fall back on each other by name. This one is added.
        static: It is a static method: its first parameter isn't the object, whatever its name.

    Raises:
        OptionError: An option is impossible for this kind of function, or ``function`` can't be guarded.
    """
    if isinstance(function, (staticmethod, classmethod)):
        of, static = function.__func__, isinstance(function, staticmethod)
        return type(function)(guarded(runtime, tool, of, options, asked=asked, group=group, static=static))
    check_guarded(tool, function)
    examined = examine(function)
    if static and examined.receiver:
        examined = dataclasses.replace(examined, receiver=False)
    options = possible(tool, examined, options, asked)
    plan = compile_plan(runtime, tool, options, receiver=examined.receiver)
    runtime.stand_ins.add(tool, examined, plan)
    if group is not None:
        group.update({**plan.group, tool: StandIn(examined, plan)})
        plan.group = group
    chain = tuple(name for name in options.chain if name != tool)
    if chain and chain != runtime.fallbacks.direct(tool):
        runtime.map_fallbacks({tool: chain})
    simple = (
        options == _NO_OPTIONS and runtime.hooks is None and not (runtime.sends_hash or runtime.fallbacks.chain(tool))
    )
    found = _wrapped(plan, examined, simple=simple)
    setattr(found, MARK, Guarded(plan, examined, found))
    return found


def guarded_together(
    runtime: Runtime, tools: Mapping[str, Callable[..., Any]], options: GuardOptions, *, asked: frozenset[str]
) -> dict[str, Callable[..., Any]]:
    """Guard functions by tool name. One that falls back on another of them calls that very function.

    Raises:
        OptionError: ``tools`` isn't a dict of functions by name, or one of them can't be guarded.
    """
    if not isinstance(tools, Mapping):
        impossible("tools", "a dict of functions by their tools' names", tools, 'tools={"search": search}')
    group: dict[str, StandIn] = {}
    return {
        name: guarded(runtime, name, function, options, asked=asked, group=group) for name, function in tools.items()
    }


def replanned(plan: GuardPlan, options: GuardOptions, asked: frozenset[str]) -> GuardPlan:
    """Return ``plan`` with those of ``options`` replaced that were ``asked`` for."""
    replaced = {name: getattr(options, name) for name in asked}
    made = compile_plan(
        plan.runtime, plan.tool, plan.options.override(cast("Overrides", replaced)), receiver=plan.receiver
    )
    made.group = {**plan.group, **made.group}
    return made


def _wrapped(plan: GuardPlan, examined: ToolFunction, *, simple: bool) -> Callable[..., Any]:
    function = examined.call
    if examined.kind == "generator":
        return _named(guarded_stream(plan, function), examined)
    if examined.kind == "async_generator":
        return _named(guarded_astream(plan, function), examined)
    if examined.kind == "coroutine":

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return (await arun(plan, function, args, kwargs)).value

        if simple:
            return _named(plain_async_guard(plan.runtime, plan.tool, function, coroutine), examined)
        return _named(coroutine, examined)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(plan, function, args, kwargs).value

    return _named(plain_guard(plan.runtime, plan.tool, function, call) if simple else call, examined)


def _named(wrapper: Callable[..., Any], examined: ToolFunction) -> Callable[..., Any]:
    """Give ``wrapper`` the names and docs of what it wraps. An object or a partial has those of its class or function."""
    original = examined.call
    if inspect.isroutine(original):
        return functools.update_wrapper(wrapper, original)
    functools.update_wrapper(wrapper, original, updated=())
    wrapper.__qualname__ = examined.name
    wrapper.__name__ = examined.name.rpartition(".")[2]
    return wrapper


_MADE_BY_A_STATEMENT: Final = 1 << 9
"""CPython's flag of classes that are not built in. ``str`` and the other built-in ones are as good as functions."""


def check_guarded(tool: object, function: Any) -> None:
    """Check that ``function`` can be guarded as ``tool``.

    Raises:
        OptionError: It can't be. The message says what to do instead.
    """
    check_tool(tool)
    if not callable(function):
        raise OptionError(
            f"What is guarded as {tool} must be a function, not {function!r:.100}.",
            hint="Put guard directly above the function, below @property and the like.",
        )
    if isinstance(function, type) and function.__flags__ & _MADE_BY_A_STATEMENT:
        raise OptionError(
            f"What is guarded as {tool} must be a function, not the class {function.__name__}.",
            hint="Guard a function that makes an object of it.",
        )


def possible(tool: str, examined: ToolFunction, options: GuardOptions, asked: frozenset[str]) -> GuardOptions:
    """Return ``options`` without the defaults that this kind of function can't have.

    Raises:
        OptionError: One of these was ``asked`` for.
    """
    streams = examined.kind in {"generator", "async_generator"}
    for name in ("cache", "single_flight"):
        if streams and getattr(options, name):
            if name in asked:
                raise OptionError(
                    f"The option {name} can't be used for {tool}: a generator has no result to share.",
                    hint="Leave it out.",
                )
            options = options.override({"cache": None} if name == "cache" else {"single_flight": False})
    if examined.kind == "generator" and options.timeout is not None:
        if "timeout" in asked:
            raise OptionError(
                f"The option timeout can't be used for {tool}: a generator that hangs can't be stopped.",
                hint="Make it an async generator.",
            )
        options = options.override({"timeout": None})
    return _fitting(tool, examined, options, asked)


def _fitting(tool: str, examined: ToolFunction, options: GuardOptions, asked: frozenset[str]) -> GuardOptions:
    """Return ``options`` without a default fallback that can't be called in place of ``examined``."""
    fallback: Any = options.fallback
    if not callable(fallback):
        return options
    tool_of = guarded_by(fallback)
    kind = examine(fallback).kind
    if kind not in (FUNCTION_MAY_STAND_IN if tool_of is None else MAY_STAND_IN)[examined.kind]:
        if "fallback" in asked:
            raise OptionError(f"The fallback of {tool} can't be a {_shown(kind)}: {tool} is a {_shown(examined.kind)}.")
        return options.override({"fallback": None})
    if tool_of is not None:
        return options
    if isinstance(options.adapt, Mapping) and "adapt" in asked:
        raise OptionError(
            f"The option adapt of {tool} can't be a dict by tool: its fallback is a function.",
            hint="Pass one function as adapt, or leave it out.",
        )
    return options if "adapt" in asked or "fallback" not in asked else options.override({"adapt": None})


def _shown(kind: str) -> str:
    return {"coroutine": "coroutine function", "async_generator": "async generator"}.get(kind, kind)
