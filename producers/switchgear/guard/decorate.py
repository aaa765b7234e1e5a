"""From a function to the same function behind its circuit."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from switchgear.arguments import impossible
from switchgear.guard.options import GuardOptions, Overrides
from switchgear.guard.plain import plain_async_guard, plain_guard
from switchgear.guard.plan import Plan
from switchgear.guard.possible import check_guarded, possible
from switchgear.guard.rich import acall_through, call_through
from switchgear.guard.stand_ins import MARK, Guarded, StandIn
from switchgear.guard.streams import guarded_astream, guarded_stream
from switchgear.guard.tool_function import ToolFunction, examine

if TYPE_CHECKING:
    from switchgear.client import Switchgear
    from switchgear.guard.calling import Calling
    from switchgear.guard.runtime import Runtime

_ASKS_FOR_NOTHING: Final = GuardOptions()


def guarded(
    gear: Switchgear,
    runtime: Runtime,
    tool: str,
    function: Any,
    options: GuardOptions,
    *,
    asked: frozenset[str],
    group: dict[str, StandIn] | None = None,
    static: bool = False,
) -> Any:
    """``function`` behind ``tool``'s circuit: of its kind, with its name, signature and docs.

    Args:
        gear: Whose circuit.
        runtime: What its calls share.
        tool: The circuit's name.
        function: What is guarded.
        options: All of them.
        asked: Names of those that were asked for here; the others are defaults, left out where they are impossible.
        group: The functions that go together with this one, which is added; a fallback is looked for among them first.
        static: It is a static method: its first parameter is one, whatever its name.

    Raises:
        OptionError: an option that its kind can't have, or something that can't be guarded.
    """
    if isinstance(function, (staticmethod, classmethod)):
        of, static = function.__func__, isinstance(function, staticmethod)
        return type(function)(guarded(gear, runtime, tool, of, options, asked=asked, group=group, static=static))
    check_guarded(tool, function)
    examined = examine(function)
    if static and examined.receiver:
        examined = dataclasses.replace(examined, receiver=False)
    options = possible(tool, examined, options, asked)
    plan = Plan(runtime, tool, options, receiver=examined.receiver)
    runtime.stand_ins.add(tool, examined, plan)
    if group is not None:
        group.update({**plan.group, tool: StandIn(examined, plan)})
        plan.group = group
    chain = tuple(name for name in options.chain if name != tool)  # by name: a function given itself is nobody else's
    if chain and chain != runtime.fallbacks.direct(tool):
        runtime.map_fallbacks({tool: chain})
    simple = (
        options == _ASKS_FOR_NOTHING
        and runtime.hooks is None
        and not (runtime.sends_hash or runtime.fallbacks.chain(tool))
    )
    found = _wrapped(gear, plan, examined, simple=simple)
    setattr(found, MARK, Guarded(plan, examined, found))
    return found


def guarded_together(calling: Calling, tools: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Guard ``tools`` by name: one of them that falls back on another of them calls that very function.

    Raises:
        OptionError: these are no tools by name, or one of them can't be guarded.
    """
    if not isinstance(tools, Mapping):
        impossible("tools", "a dict of functions by their tools' names", tools, 'tools={"search": search}')
    gear, runtime, options, asked = calling._gear, calling._runtime, calling.options, calling._asked  # noqa: SLF001 - the client's inner half
    group: dict[str, StandIn] = {}
    return {
        name: guarded(gear, runtime, name, function, options, asked=asked, group=group)
        for name, function in tools.items()
    }


def replanned(plan: Plan, options: GuardOptions, asked: frozenset[str]) -> Plan:
    """``plan`` with those of ``options`` that were ``asked`` for in their place."""
    replaced = {name: getattr(options, name) for name in asked}
    made = Plan(plan.runtime, plan.tool, plan.options.override(cast("Overrides", replaced)), receiver=plan.receiver)
    made.group = {**plan.group, **made.group}
    return made


def _wrapped(gear: Switchgear, plan: Plan, examined: ToolFunction, *, simple: bool) -> Callable[..., Any]:
    function = examined.call
    if examined.kind == "generator":
        return _named(guarded_stream(plan, function), examined)
    if examined.kind == "async_generator":
        return _named(guarded_astream(plan, function), examined)
    if examined.kind == "coroutine":

        async def arich(args: Any, kwargs: Any) -> Any:
            return await acall_through(plan, function, args, kwargs)

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await acall_through(plan, function, args, kwargs)

        return _named(plain_async_guard(gear, plan.tool, function, arich) if simple else coroutine, examined)

    def rich(args: Any, kwargs: Any) -> Any:
        return call_through(plan, function, args, kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        return call_through(plan, function, args, kwargs)

    return _named(plain_guard(gear, plan.tool, function, rich) if simple else call, examined)


def _named(wrapper: Callable[..., Any], examined: ToolFunction) -> Callable[..., Any]:
    """``wrapper`` with the names and docs of what it wraps; an object or a partial has the name of its class or function."""
    original = examined.call
    if inspect.isroutine(original):
        return functools.update_wrapper(wrapper, original)
    functools.update_wrapper(wrapper, original, updated=())
    wrapper.__qualname__ = examined.name
    wrapper.__name__ = examined.name.rpartition(".")[2]
    return wrapper
