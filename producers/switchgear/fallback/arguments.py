"""The arguments of a call for what stands in for its tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from switchgear.guard.argument_mismatch import Arguments, misfit

if TYPE_CHECKING:
    from switchgear.guard.pipeline import Call
    from switchgear.guard.plan import Plan
    from switchgear.guard.tool_function import ToolFunction


def for_tool(call: Call, name: str, target: ToolFunction) -> Arguments | None:
    """What to call ``target`` with, the fallback called ``name``; None, and it is logged, where it can't stand in."""
    plan = call.plan
    receiver = call.args[:1] if plan.receiver else ()
    if target.receiver and not receiver:
        why = f"a {target.kind} with a self in place of a {call.kind}"
    elif target.receiver and not _has(receiver[0], target):
        why = f"a {type(receiver[0]).__qualname__} has no {target.name}"
    else:
        found = _along(plan, name, call, (call.args[len(receiver) :], call.kwargs))
        if found is None:
            return None
        args, kwargs = ((*receiver, *found[0]) if target.receiver else found[0]), found[1]
        unfit = misfit(target.call, args, kwargs)
        if unfit is None:
            return args, kwargs
        plan.runtime.complaints.warning(f"the arguments of {plan.tool} don't fit {name}", TypeError(unfit))
        return None
    plan.runtime.complaints.warning(f"{name} can't stand in for {plan.tool}: {why}")
    return None


def for_function(call: Call, target: ToolFunction) -> Arguments | None:
    """What to call the user's own function with, given as the fallback; it may be a method as well. None as above."""
    plan = call.plan
    receiver = call.args[:1] if plan.receiver else ()
    found = plan.adapted(target.name, call.args[len(receiver) :], call.kwargs)
    if found is None:
        return None
    args, kwargs = found
    return ((*receiver, *args) if target.receiver else args), kwargs


def warn_of_unknown_tools(plan: Plan, chain: tuple[str, ...]) -> None:
    """Log adapters for names that nobody knows: misspelt ones."""
    adapt, runtime = plan.options.adapt, plan.runtime
    if isinstance(adapt, Mapping):
        for name in adapt.keys() - {plan.tool, *chain}:
            if not runtime.knows(name):
                runtime.complaints.warning(
                    f"{plan.tool} has an adapter for {name}, which is no tool that is known here"
                )


def _along(plan: Plan, name: str, call: Call, given: Arguments) -> Arguments | None:
    """Adapted for ``name``: by the call's own plan, or step by step through the fallbacks that lead there."""
    adapt = plan.options.adapt
    via = plan.runtime.named_by(plan.tool, plan.options.chain, name, plan.group)
    if via == plan.tool or callable(adapt) or (adapt is not None and name in adapt):
        return plan.adapted(name, *given)
    found = _along(plan, via, call, given)
    between = plan.runtime.stand_ins.find(via, call.kind, plan.group)
    if found is None or between is None or isinstance(between, str):
        return found
    return between.plan.adapted(name, *found)


def _has(receiver: Any, method: ToolFunction) -> bool:
    """Is ``receiver`` an object of the class that ``method`` was written in, or (of a class method) that class or a subclass?"""
    written = (method.call.__module__, method.call.__qualname__.rpartition(".")[0])
    above = (*type(receiver).__mro__, *(receiver.__mro__ if isinstance(receiver, type) else ()))
    return any((one.__module__, one.__qualname__) == written for one in above)
