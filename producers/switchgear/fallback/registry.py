"""Which guarded function is called where a chain of fallbacks names its tool."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from switchgear.guard.tool_function import same_function
from switchgear.runtime.fork import call_in_child

if TYPE_CHECKING:
    from switchgear.guard.options import GuardOptions
    from switchgear.guard.tool_function import Kind, ToolFunction


MARK: Final = "__switchgear__"
"""The attribute of a guarded function that holds its :class:`Guarded`."""
MOST_TOOLS: Final = 10_000
"""The most tools to remember. When more come, the one that was guarded first is forgotten."""

MAY_STAND_IN: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "function": ("function",),
    "coroutine": ("coroutine", "function"),
    "generator": ("generator",),
    "async_generator": ("async_generator",),
}
"""By the kind of the call: the kinds of guarded functions that its caller can call instead, the better one first."""
FUNCTION_MAY_STAND_IN: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    **MAY_STAND_IN,
    "generator": ("generator", "function"),
    "async_generator": ("async_generator", "function"),
}
"""The same for a function that isn't guarded: it may return what is to be iterated."""

DIFFERENT: Final = "different functions are guarded under that name (give the one that is meant as fallback=)"


class StandIn(NamedTuple):
    """A guarded function and the rules of its calls."""

    tool: ToolFunction
    plan: Any
    """Its :class:`~switchgear.guard.call.GuardPlan`. This module can't name the type: plans are made with its help."""


Group = Mapping[str, StandIn]
"""Functions by tool that fall back on each other: those of one agent, or those given as a fallback themselves."""


NO_GROUP: Final[Group] = {}


class Guarded(NamedTuple):
    """What a guarded function carries under :data:`MARK`."""

    plan: Any
    """See :class:`StandIn`."""
    tool: ToolFunction
    wrapper: Callable[..., Any]
    """The guarded function itself: another decorator copies the mark, and must not be passed over."""


def guarded_by(function: Any) -> Guarded | None:
    """Return what ``function`` carries if it is guarded."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, Guarded) and found.wrapper is getattr(function, "__func__", function) else None


def resolved(runtime: object, options: GuardOptions) -> tuple[GuardOptions, Group]:
    """Replace a fallback that is a guarded function of this client by its tool's name.

    Args:
        runtime: The client's.
        options: Of a guard.

    Returns:
        The options, and the functions that the names in them mean.
    """
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
    """The guarded functions by tool and kind. Thread-safe.

    The same function guarded again replaces itself, as after a reload. If different functions share a name (of two users or
    agents, perhaps), none of them stands in.
    """

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[Kind, StandIn | None]] = {}
        self._reset()
        call_in_child(self._reset)

    def add(self, tool: str, examined: ToolFunction, plan: Any) -> None:
        """Add a function that is guarded as ``tool``."""
        with self._lock:
            kinds = self._by_tool.get(tool)
            if kinds is None:
                if len(self._by_tool) >= MOST_TOOLS:
                    del self._by_tool[next(iter(self._by_tool))]
                kinds = self._by_tool[tool] = {}
            if examined.kind in kinds:
                known = kinds[examined.kind]
                if known is None or not same_function(known.tool.call, examined.call):
                    kinds[examined.kind] = None
                    return
            kinds[examined.kind] = StandIn(examined, plan)

    def find(self, tool: str, kind: Kind, group: Group) -> StandIn | str | None:
        """Return what stands in as ``tool``, or why nothing does; None if the tool is not guarded here.

        Args:
            tool: The fallback's name.
            kind: The kind of the call.
            group: The functions of the caller's own group; they go first.
        """
        own = group.get(tool)
        kinds: Mapping[Kind, StandIn | None] = self._by_tool.get(tool, {}) if own is None else {own.tool.kind: own}
        if not kinds:
            return None
        for fitting in MAY_STAND_IN[kind]:
            if fitting in kinds:
                return kinds[fitting] or DIFFERENT
        return f"a {next(iter(kinds))} in place of a {kind}"

    def _reset(self) -> None:
        self._lock = threading.RLock()
