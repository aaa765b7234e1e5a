"""The common call: a guard without options, on a circuit that lets calls through without counting them.

Everything that a call needs is bound once, when the function is decorated. A call then reads the circuit's ``quiet`` permit
(:class:`~switchgear.breaker.core.Core`), the fleet's view and the clock, and appends one tuple to the emitter's buffer. The
background thread makes the event of it. All other calls take the full path: in a session, with a hook, through an open
circuit or one that counts failures, or with an exception.

The breaker's :meth:`~switchgear.breaker.core.Core.counts` don't include these successes; no rule of such a circuit uses them.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from switchgear.classify.result import HARMLESS, failure_in, text_in
from switchgear.emitter.event import Event
from switchgear.guard.argument_mismatch import misfit
from switchgear.guard.call import Call, GuardPlan
from switchgear.guard.deferred_results import awaits, finish
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import CircuitOpenError
from switchgear.sessions.session import session_stack

if TYPE_CHECKING:
    from switchgear.emitter.buffer import Item
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.fleet_circuits import FleetCircuits


Function = Callable[..., Any]
Coroutine = Callable[..., Awaitable[Any]]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_NO_BUFFER: Final[deque[Item]] = deque()


def plain_guard(plan: GuardPlan, function: Function, full: Function) -> Function:
    """Return ``function`` behind ``tool``'s circuit, without its name and signature.

    Args:
        plan: The tool and the client whose circuits decide.
        function: What is guarded; not a coroutine function.
        full: ``function`` on the full path.
    """
    runtime, tool, decision = plan.runtime, plan.tool, plan.runtime.decision
    if decision.fleet is not None:
        return _emitting(plan, decision.fleet, function, full)
    circuits, routed, sessions = decision.local.circuits, runtime.fallbacks.named, session_stack.get
    clock, reporter = decision.clock, decision.reporter

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or sessions():
            return full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        if quiet is None:
            refusal = None if tool in routed else circuit.refusal(tool, clock(), None)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return full(*args, **kwargs)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            _failed(function, args, kwargs, error, Permit(reporter, tool, circuit, quiet, clock(), None))
            raise
        if type(result) not in HARMLESS and _needs_report(result):
            return _reported(
                plan, function, args, kwargs, Permit(reporter, tool, circuit, quiet, clock(), None), result
            )
        if circuit.breaker.quiet is not quiet:
            Permit(reporter, tool, circuit, quiet, clock(), None).success()
        return result

    return call


def plain_async_guard(plan: GuardPlan, function: Coroutine, full: Coroutine) -> Coroutine:
    """Return the coroutine function ``function`` behind ``tool``'s circuit, as :func:`plain_guard` does."""
    runtime, tool, decision = plan.runtime, plan.tool, plan.runtime.decision
    if decision.fleet is not None:
        return _emitting_async(plan, decision.fleet, function, full)
    circuits, routed, sessions = decision.local.circuits, runtime.fallbacks.named, session_stack.get
    clock, reporter = decision.clock, decision.reporter

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or sessions():
            return await full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        if quiet is None:
            refusal = None if tool in routed else circuit.refusal(tool, clock(), None)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await full(*args, **kwargs)
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            _failed(function, args, kwargs, error, Permit(reporter, tool, circuit, quiet, clock(), None))
            raise
        if type(result) not in HARMLESS and (failure := failure_in(result)) is not None:
            permit = Permit(reporter, tool, circuit, quiet, clock(), None)
            permit.failure(text_in(result), classification=failure)
            return result
        if circuit.breaker.quiet is not quiet:
            Permit(reporter, tool, circuit, quiet, clock(), None).success()
        return result

    return call


def _emitting(plan: GuardPlan, fleet: FleetCircuits, function: Function, full: Function) -> Function:
    """Return :func:`plain_guard` with the fleet's view before the call and an event after it."""
    runtime, tool, decision = plan.runtime, plan.tool, plan.runtime.decision
    circuits, routed, sessions = decision.local.circuits, runtime.fallbacks.named, session_stack.get
    clock, reporter = decision.clock, decision.reporter
    views, scoped, follower, emitter, wall = fleet.views, fleet.scoped, fleet.follower, fleet.emitter, fleet.wall
    items, limit = _room(emitter, clock)

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or sessions() or not runtime.started:
            return full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(tool)
        if quiet is None or (view is not None and (not view.passes or view.overrides)) or (scoped and tool in scoped):
            refusal = None if tool in routed else decision.refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return full(*args, **kwargs)
        generation = view.generation if view is not None else 0 if follower.loaded else None
        started = clock()
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            _failed(function, args, kwargs, error, Permit(reporter, tool, circuit, quiet, started, generation))
            raise
        if type(result) not in HARMLESS and _needs_report(result):
            return _reported(
                plan, function, args, kwargs, Permit(reporter, tool, circuit, quiet, started, generation), result
            )
        if circuit.breaker.quiet is not quiet:
            Permit(reporter, tool, circuit, quiet, started, generation).success()
            return result
        ended = clock()
        if len(items) >= limit:
            emitter.emit(Event(tool, "success", (ended - started) * 1000, generation), ended_at=wall())
            return result
        items.append((tool, started, ended, generation))
        if emitter.idle:  # read after the append: the background thread looks at the buffer again after it sets this
            _wake(emitter, items)
        return result

    return call


def _emitting_async(plan: GuardPlan, fleet: FleetCircuits, function: Coroutine, full: Coroutine) -> Coroutine:
    runtime, tool, decision = plan.runtime, plan.tool, plan.runtime.decision
    circuits, routed, sessions = decision.local.circuits, runtime.fallbacks.named, session_stack.get
    clock, reporter = decision.clock, decision.reporter
    views, scoped, follower, emitter, wall = fleet.views, fleet.scoped, fleet.follower, fleet.emitter, fleet.wall
    items, limit = _room(emitter, clock)

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or sessions() or not runtime.started:
            return await full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(tool)
        if quiet is None or (view is not None and (not view.passes or view.overrides)) or (scoped and tool in scoped):
            refusal = None if tool in routed else decision.refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await full(*args, **kwargs)
        generation = view.generation if view is not None else 0 if follower.loaded else None
        started = clock()
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            _failed(function, args, kwargs, error, Permit(reporter, tool, circuit, quiet, started, generation))
            raise
        if type(result) not in HARMLESS and (failure := failure_in(result)) is not None:
            permit = Permit(reporter, tool, circuit, quiet, started, generation)
            permit.failure(text_in(result), classification=failure)
            return result
        if circuit.breaker.quiet is not quiet:
            Permit(reporter, tool, circuit, quiet, started, generation).success()
            return result
        ended = clock()
        if len(items) >= limit:
            emitter.emit(Event(tool, "success", (ended - started) * 1000, generation), ended_at=wall())
            return result
        items.append((tool, started, ended, generation))
        if emitter.idle:  # as above
            _wake(emitter, items)
        return result

    return call


def _room(emitter: Emitter, clock: Callable[[], float]) -> tuple[deque[Item], int]:
    """Return the emitter's buffer and its limit, or no room if the emitter must see every event."""
    if emitter.takes_tuples and clock is time.monotonic:  # the emitter's own clock
        return emitter.buffer.items, emitter.buffer.limit
    return _NO_BUFFER, 0


def _wake(emitter: Emitter, items: deque[Item]) -> None:
    """Wake the background thread. If the emitter is closed, take the event back."""
    if emitter.closed:
        with contextlib.suppress(IndexError):  # another thread did
            items.pop()
    else:
        emitter.wake(urgent=False)


def _needs_report(result: Any) -> bool:
    """Return whether ``result`` is more than a plain success: still to be awaited, or a failure."""
    return (type(result) is not dict and awaits(result)) or failure_in(result) is not None


def _reported(plan: GuardPlan, function: Function, args: Args, kwargs: Kwargs, permit: Permit, result: Any) -> Any:
    """Report the end of a call, now or when ``result`` is awaited. Return what its caller gets."""
    call = Call(plan, "function", function, args, kwargs)
    call.permitted(permit)
    finish(call, result)
    return call.value


def _failed(function: Function, args: Args, kwargs: Kwargs, error: BaseException, permit: Permit) -> None:
    if not (isinstance(error, TypeError) and misfit(function, args, kwargs)):  # that says nothing about the tool
        permit.failure(error)
