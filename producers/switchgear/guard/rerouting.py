"""The option ``fallback``: what serves a caller whose call a circuit refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from switchgear.fallback import DIFFERENT, MAY_STAND_IN, candidates
from switchgear.guard.attempts import Pending
from switchgear.guard.call import Call, GuardPlan, running
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from switchgear.guard.tool_function import Arguments, Guarded, fitted

if TYPE_CHECKING:
    from switchgear.guard.tool_function import ToolFunction

Waits = Generator[Pending, Permit | Rejection, Rejection | None]
"""Yields what to wait for and gets the answer. Returns the refusal that stands, or None if the call goes on."""


def find_fallback(call: Call, refusal: Rejection) -> Waits:
    """Let something else serve the caller. A refusal that stands may name a tool to use instead."""
    fallback = call.plan.options.fallback
    if refusal.state == "half_open" and _is_part_of_probe(call, refusal.family):
        return _call_unguarded(call)
    if callable(fallback):
        return None if _call_function(call, fallback, refusal) else refusal
    chain = call.plan.runtime.chain(call.tool, call.plan.options.chain, call.plan.group)
    return (yield from _call_chain(call, chain, refusal)) if chain else refusal


def _is_part_of_probe(call: Call, family: str | None) -> bool:
    """Return whether the running probe of the same tool, or of the same ``family``, makes this call: the probe's end decides."""
    for each in running.get():
        permit = each.permit
        if permit is not None and not permit.reported and each.plan.runtime is call.plan.runtime:
            of = permit.family
            if each.tool == call.tool or (family is not None and of is not None and of.name == family and of.probe):
                return True
    return False


def _call_unguarded(call: Call) -> Rejection | None:
    """Call the tool itself, whatever its circuit says. A session's limits hold."""
    answer = call.plan.runtime.unguarded(call.tool, call.target)
    if isinstance(answer, Rejection):
        return answer
    call.permitted(answer)
    return None


def _call_chain(call: Call, chain: tuple[str, ...], refusal: Rejection) -> Waits:
    """Let the first tool of ``chain`` that can take the call take it."""
    plan, runtime = call.plan, call.plan.runtime
    named = None
    for name in candidates((call.tool, *chain), lambda name: name == call.tool or runtime.is_open(name)):
        if name == call.tool:  # every circuit is open
            return _call_despite(call, refusal)
        found = runtime.stand_ins.find(name, call.kind, plan.group)
        if not isinstance(found, Guarded):
            if found is not None:
                runtime.complaints.warning(f"{name} can't stand in for {call.tool}: {found}")
            if found is None or found == DIFFERENT:
                named = named or name
            continue
        arguments = _arguments_for(call, name, found.tool)
        if arguments is None:
            continue
        caller, target = found.plan.caller(*arguments), _target_of(found, arguments)
        answer = runtime.ask(name, caller, arguments=_parameters_of(found, arguments), target=target)
        if isinstance(answer, Pending):
            answer = yield answer
        if isinstance(answer, Permit):
            call.tool, call.function, call.served_by, call.acting = name, found.tool.call, "fallback", found.plan
            call.args, call.kwargs = arguments
            call.permitted(answer)
            runtime.refused(refusal, served_by="fallback", fallback_tool=name)
            return None
    return refusal if named is None else msgspec.structs.replace(refusal, fallback=named)


def _call_despite(call: Call, refusal: Rejection) -> Rejection | None:
    """Serve a cached result, else call the tool itself. Not if an operator has forced it open, or if its rate limit is used up."""
    if call.answer_from_cache(stale=True):
        call.plan.runtime.refused(refusal, served_by="cache")
        return None
    return refusal if refusal.state == "forced_open" or refusal.source == "pace" else _call_unguarded(call)


def _call_function(call: Call, fallback: Callable[..., Any], refusal: Rejection) -> bool:
    """Let the user's own function take the call, without a circuit. Return whether it can."""
    from switchgear.guard.tool_function import examine  # noqa: PLC0415 - refusals alone need it

    plan, target = call.plan, examine(fallback)
    stand_ins = (each.plan for each in running.get() if each.permit is None)
    if any(each.tool == plan.tool and each.runtime is plan.runtime for each in stand_ins):  # it has called its own tool
        return False
    if target.kind not in MAY_STAND_IN[call.kind]:
        why = f"a {target.kind} in place of a {call.kind}"
        plan.runtime.complaints.warning(f"{target.name} can't stand in for {call.tool}: {why}")
        return False
    receiver = call.args[:1] if plan.receiver else ()
    adapted = _adapt(plan, target.name, (call.args[len(receiver) :], call.kwargs))
    if adapted is None:
        return False
    args, call.kwargs = adapted
    call.args = (*receiver, *args) if target.receiver else args
    call.function, call.tool, call.served_by = fallback, target.name, "fallback"
    plan.runtime.refused(refusal, served_by="fallback", fallback_tool=target.name)
    return True


def _arguments_for(call: Call, name: str, target: ToolFunction) -> Arguments | None:
    """Return what to call ``target`` with, the fallback called ``name``; None, and log it, if it can't stand in."""
    plan = call.plan
    receiver = call.args[:1] if plan.receiver else ()
    adapted = _adapt(plan, name, (call.args[len(receiver) :], call.kwargs))
    if adapted is None:
        return None
    found = fitted(target, receiver, adapted)
    if isinstance(found, str):
        plan.runtime.complaints.warning(f"{name} can't stand in for {plan.tool}: {found}")
        return None
    return found


def _parameters_of(fallback: Guarded, arguments: Arguments) -> Callable[[], str | None]:
    return lambda: fallback.plan.parameters(fallback.tool.call, *arguments)


def _target_of(fallback: Guarded, arguments: Arguments) -> Callable[[str], str]:
    return lambda rule: fallback.plan.target(rule, fallback.tool.call, *arguments)


def _adapt(plan: GuardPlan, target: str, given: Arguments) -> Arguments | None:
    """Return the arguments, without a receiver, for the fallback ``target``; None if the user's adapter fails."""
    adapt = plan.options.adapt
    adapter = adapt.get(target) if isinstance(adapt, Mapping) else adapt
    if adapter is None:
        return given
    args, kwargs = given

    def adapted() -> Arguments:
        positional, named = adapter(*args, **kwargs)
        return tuple(positional), dict(named)

    return plan.runtime.attempt(f"the arguments of {plan.tool} could not be adapted for {target}", adapted)
