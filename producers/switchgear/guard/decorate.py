"""From a function to the same function behind its circuit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.options import GuardOptions, OptionError
from switchgear.guard.plain import plain_async_guard, plain_guard
from switchgear.guard.plan import Plan
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

    Raises:
        OptionError: an option that its kind can't have, or no callable.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(guarded(gear, runtime, tool, function.__func__, options, asked=asked, group=group))
    if not callable(function):
        raise OptionError(f"What is guarded as {tool} is a function, not {function!r}.")
    examined = examine(function)
    options = _possible(tool, examined, options, asked)
    plan = Plan(runtime, tool, options, receiver=examined.receiver)
    runtime.stand_ins.add(tool, examined, plan)
    if group is not None:
        group.update({**plan.group, tool: StandIn(examined, plan)})
        plan.group = group
    chain = tuple(name for name in plan.options.chain if name != tool)
    if chain:
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
    """Guard ``tools`` by name: one of them that falls back on another of them calls that very function."""
    gear, runtime, options, asked = calling._gear, calling._runtime, calling.options, calling._asked  # noqa: SLF001 - the client's inner half
    group: dict[str, StandIn] = {}
    return {
        name: guarded(gear, runtime, name, function, options, asked=asked, group=group)
        for name, function in tools.items()
    }


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


def _possible(tool: str, examined: ToolFunction, options: GuardOptions, asked: frozenset[str]) -> GuardOptions:
    """``options`` without the defaults that this kind of function can't have."""
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
    return options
