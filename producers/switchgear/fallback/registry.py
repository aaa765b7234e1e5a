"""StandIns: which guarded function is called where a chain of fallbacks names its tool."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from switchgear.guard.tool_function import same_function

if TYPE_CHECKING:
    from switchgear.guard.options import GuardOptions
    from switchgear.guard.plan import Plan
    from switchgear.guard.runtime import Runtime
    from switchgear.guard.tool_function import Kind, ToolFunction


MARK: Final = "__switchgear__"
MOST_TOOLS: Final = 10_000
"""Tools that are remembered; beyond it the one that was guarded first is forgotten."""

MAY_STAND_IN: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "function": ("function",),
    "coroutine": ("coroutine", "function"),
    "generator": ("generator",),
    "async_generator": ("async_generator",),
}
"""By the kind of what is called: what its caller can call instead, the better one first."""
FUNCTION_MAY_STAND_IN: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    **MAY_STAND_IN,
    "generator": ("generator", "function"),
    "async_generator": ("async_generator", "function"),
}
"""The same for a function of the user's own, which may return what is to be iterated."""

DIFFERENT: Final = "different functions are guarded under that name (give the one that is meant as fallback=)"


class StandIn(NamedTuple):
    """A guarded function, as it is called and by which rules."""

    tool: ToolFunction
    plan: Plan


Group = Mapping[str, StandIn]
"""By tool, the functions that go together: of one agent's tools, or given as a fallback themselves."""


NO_GROUP: Final[Group] = {}


class Guarded(NamedTuple):
    """What a guarded function carries under :data:`MARK`."""

    plan: Plan
    tool: ToolFunction
    wrapper: Callable[..., Any]
    """The guarded function itself: another decorator copies the mark, and is not to be passed over."""


def guarded_by(function: Any) -> Guarded | None:
    """What ``function`` carries where it is guarded."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, Guarded) and found.wrapper is getattr(function, "__func__", function) else None


def resolved(runtime: Runtime, options: GuardOptions) -> tuple[GuardOptions, Group]:
    """``options`` with a tool's name as the fallback where that is a guarded function of this client, and which one is meant."""
    found = guarded_by(options.fallback)
    if found is None or found.plan.runtime is not runtime:
        return options, NO_GROUP
    tool, plan = found.tool, found.plan
    if inspect.ismethod(options.fallback) and tool.receiver:
        bound = functools.partial(tool.call, options.fallback.__self__)
        tool = dataclasses.replace(tool, call=bound, receiver=False)
    named = dataclasses.replace(options, fallback=plan.tool)
    return named, {**plan.group, plan.tool: StandIn(tool, plan)}


class StandIns:
    """By tool and kind the function that was guarded last. Thread-safe.

    The same function again takes its own place, as after a reload. Where different ones hold one name, for two users or
    agents perhaps, none of them stands in for anybody.
    """

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[Kind, StandIn | None]] = {}
        self.forked()

    def add(self, tool: str, examined: ToolFunction, plan: Plan) -> None:
        """``examined`` is guarded as ``tool``."""
        with self._lock:
            kinds = self._by_tool.get(tool)
            if kinds is None:
                if len(self._by_tool) >= MOST_TOOLS:
                    del self._by_tool[next(iter(self._by_tool))]
                kinds = self._by_tool[tool] = {}
            known = kinds.get(examined.kind, _NOBODY)
            if known is _NOBODY or (isinstance(known, StandIn) and same_function(known.tool.call, examined.call)):
                kinds[examined.kind] = StandIn(examined, plan)
            else:
                kinds[examined.kind] = None

    def find(self, tool: str, kind: Kind, group: Group) -> StandIn | str | None:
        """What stands in as ``tool`` for a call of ``kind``; why nothing does; None where the tool is not guarded here.

        Args:
            tool: The fallback's name.
            kind: Of what is called.
            group: Of the caller's own, and asked first.
        """
        own = group.get(tool)
        kinds: Mapping[Kind, StandIn | None] = self._by_tool.get(tool, {}) if own is None else {own.tool.kind: own}
        if not kinds:
            return None
        for fitting in MAY_STAND_IN[kind]:
            found = kinds.get(fitting, _NOBODY)
            if isinstance(found, StandIn):
                return found
            if found is None:
                return DIFFERENT
        return f"a {next(iter(kinds))} in place of a {kind}"

    def has(self, tool: str) -> bool:
        """Is anything guarded as ``tool``?"""
        return tool in self._by_tool

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock = threading.RLock()


_NOBODY: Final = object()
