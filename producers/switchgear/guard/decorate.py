"""Put a function behind its circuit."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear import arguments
from switchgear.arguments import OptionError
from switchgear.fallback import MAY_STAND_IN
from switchgear.guard.call import GuardPlan
from switchgear.guard.fast_path import plain_async_guard, plain_guard
from switchgear.guard.options import GuardOptions
from switchgear.guard.pipeline import arun, run
from switchgear.guard.streams import guarded_astream, guarded_stream
from switchgear.guard.tool_function import MARK, Guarded, ToolFunction, examine, guarded_by

if TYPE_CHECKING:
    from switchgear.guard.runtime import Runtime


_NO_OPTIONS: Final = GuardOptions()


def guarded(
    runtime: Runtime,
    tool: str,
    function: Any,
    options: GuardOptions,
    *,
    asked: Collection[str],
    group: dict[str, Guarded] | None = None,
) -> Any:
    """Return ``function`` behind ``tool``'s circuit, with its kind, name, signature and docs.

    The options in ``asked`` were given here; the others are defaults, left out where they are impossible. The functions in
    ``group`` fall back on each other by name. This one is added.

    Raises:
        OptionError: An option is impossible for this kind of function, or ``function`` can't be guarded.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(guarded(runtime, tool, function.__func__, options, asked=asked, group=group))
    arguments.tool_name(tool)
    _check_function(tool, function)
    examined = examine(function)
    options = _possible(tool, examined, options, asked)
    plan = GuardPlan(runtime, tool, options, receiver=examined.receiver)
    runtime.stand_ins.add(tool, examined, plan)
    if group is not None:
        group.update({**plan.group, tool: Guarded(examined, plan)})
        plan.group = group
    chain = tuple(name for name in options.chain if name != tool)
    if chain:
        runtime.fallbacks.update({tool: chain})
    simple = (
        options == _NO_OPTIONS
        and runtime.hooks is None
        and runtime.process_limit is None
        and not (runtime.sends_hash or runtime.fallbacks.chain(tool))
    )
    found = _wrapped(plan, examined, simple=simple)
    setattr(found, MARK, Guarded(examined, plan, found))
    return found


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
            return _named(plain_async_guard(plan, function, coroutine), examined)
        return _named(coroutine, examined)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(plan, function, args, kwargs).value

    return _named(plain_guard(plan, function, call) if simple else call, examined)


def _named(wrapper: Callable[..., Any], examined: ToolFunction) -> Callable[..., Any]:
    """Give ``wrapper`` the names and docs of what it wraps. An object or a partial has those of its class or function."""
    original = examined.call
    if inspect.isroutine(original):
        return functools.update_wrapper(wrapper, original)
    functools.update_wrapper(wrapper, original, updated=())
    wrapper.__qualname__ = examined.name
    wrapper.__name__ = examined.name.rpartition(".")[2]
    return wrapper


_ADAPTERS: Final = {
    "langchain_core": "langchain.SwitchgearMiddleware",
    "langchain": "langchain.SwitchgearMiddleware",
    "agents": "openai_agents.SwitchgearRunner",
    "pydantic_ai": "pydantic_ai.SwitchgearCapability",
    "google": "google_adk.SwitchgearPlugin",
    "agent_framework": "agent_framework.guard_middleware",
    "crewai": "crewai.guard_crews",
    "claude_agent_sdk": "claude_agent_sdk.guard_options",
    "mcp": "mcp_server.guard_server",
    "mcp_types": "mcp_client.guard_session",
    "fastmcp": "fastmcp.SwitchgearMiddleware",
}
"""The adapter, in ``switchgear.integrations``, of the framework that a tool object comes from, by its top module."""


def _check_function(tool: str, function: Any) -> None:
    kind = type(function)
    adapter = _ADAPTERS.get(kind.__module__.partition(".")[0])
    if adapter is not None and "Tool" in kind.__name__:
        hint = f"Put guard on its function, below the framework's decorator; or guard all tools with switchgear.integrations.{adapter}."
        arguments.impossible(f"What is guarded as {tool}", "a function", function, hint)
    if not callable(function):
        hint = "Put guard directly above the function, below @property and the like."
    elif isinstance(function, type) and function.__module__ != "builtins":  # str and int are as good as functions
        hint = "Guard a function that makes an object of it."
    else:
        return
    arguments.impossible(f"What is guarded as {tool}", "a function", function, hint)


def _possible(tool: str, examined: ToolFunction, options: GuardOptions, asked: Collection[str]) -> GuardOptions:
    """Return ``options`` without the defaults that this kind of function can't have.

    Raises:
        OptionError: One of these was ``asked`` for.
    """
    problems = {}
    if examined.kind in {"generator", "async_generator"}:
        why = "a generator has no result to share."
        for name in ("cache", "single_flight"):
            if getattr(options, name):
                problems[name] = f"The option {name} can't be used for {tool}: {why}", "Leave it out."
    if examined.kind == "generator" and options.timeout is not None:
        why = "a generator that hangs can't be stopped."
        problems["timeout"] = f"The option timeout can't be used for {tool}: {why}", "Make it an async generator."
    if callable(options.fallback):
        kind = examine(options.fallback).kind
        if kind not in MAY_STAND_IN[examined.kind]:
            problems["fallback"] = (
                f"The fallback of {tool} can't be a {kind.replace('_', ' ')}.",
                f"{tool} is a {examined.kind.replace('_', ' ')}.",
            )
        elif guarded_by(options.fallback) is None and isinstance(options.adapt, Mapping):
            why = "its fallback is a function."
            problems["adapt"] = (
                f"The option adapt of {tool} can't be a dict by tool: {why}",
                "Pass one function as adapt.",
            )
    for name, (problem, hint) in problems.items():
        if name in asked:
            raise OptionError(problem, hint=hint)
    return dataclasses.replace(options, **{name: getattr(_NO_OPTIONS, name) for name in problems})
