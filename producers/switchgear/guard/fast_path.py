"""The common call: a guard without options, on a circuit that lets calls through without counting them.

Everything that a call needs is bound once, when the function is decorated. A call then reads the circuit's ``quiet`` permit
(:class:`~switchgear.breaker.Breaker`), the fleet's view and the clock, and appends one tuple to the emitter's buffer. The
background thread makes the event of it. All other calls take the full path: in a session, with a hook, through an open
circuit or one that counts failures, or with an exception.

The breaker's :meth:`~switchgear.breaker.Breaker.counts` don't include these successes; no rule of such a circuit uses them.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from switchgear.classify.result import HARMLESS, classify_result
from switchgear.guard.call import Call, GuardPlan
from switchgear.guard.deferred_results import awaits, finish
from switchgear.guard.families import FamilyPermit
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.tool_function import misfit
from switchgear.sessions import session_stack
from switchgear_schemas.circuit_ids import tool_circuit

if TYPE_CHECKING:
    from switchgear.breaker import Breaker, BreakerPermit
    from switchgear.emitter.buffer import Item
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.fleet_circuits import FleetCircuits
    from switchgear.guard.local_circuits import LocalCircuit


Function = Callable[..., Any]
Coroutine = Callable[..., Awaitable[Any]]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_NO_BUFFER: Final[deque[Item]] = deque()


class _OffPath:
    """What the calls of one guard do off the common path."""

    def __init__(self, plan: GuardPlan, function: Function) -> None:
        self._plan = plan
        self._function = function
        self._decision, self._tool = plan.runtime.decision, plan.tool
        families, self.family = self._decision.families, self._decision.family_of(plan.tool)
        self.family_circuit = None if self.family is None or families is None else families.get(self.family)
        self.family_breaker = None if self.family_circuit is None else self.family_circuit.breaker

    def permit(
        self,
        circuit: LocalCircuit,
        quiet: BreakerPermit,
        of_family: BreakerPermit | None,
        started: float | None = None,
        generation: int | None = None,
        family_generation: int | None = None,
    ) -> Permit:
        """Return the permit of a call that was made, to report it."""
        reporter = self._decision.reporter
        began = reporter.clock() if started is None else started
        family = self.family
        held = None
        if family is not None:
            held = FamilyPermit(family.name, self.family_circuit, of_family, family_generation)
        return Permit(reporter, self._tool, circuit, quiet, began, generation, family=held)

    def failed(self, error: BaseException, args: Args, kwargs: Kwargs, permit: Permit) -> None:
        """Report an exception. Arguments that don't fit say nothing about the tool."""
        if not (isinstance(error, TypeError) and misfit(self._function, args, kwargs)):
            permit.failure(error)

    def finish(self, result: Any, args: Args, kwargs: Kwargs, permit: Permit) -> Any:
        """Report a result that isn't a plain success, now or when it is awaited. Return what the caller gets."""
        call = Call(self._plan, "function", self._function, args, kwargs)
        call.permitted(permit)
        finish(call, result)
        return call.value


def _needs_report(result: Any) -> bool:
    """Return whether ``result`` is more than a plain success: still to be awaited, or a failure."""
    return (type(result) is not dict and awaits(result)) or classify_result(result) is not None


def plain_guard(plan: GuardPlan, function: Function, full: Function) -> Function:
    """Return ``function`` behind its tool's circuit, without its name and signature. ``full`` is it on the full path."""
    decision = plan.runtime.decision
    tool, off_path = plan.tool, _OffPath(plan, function)
    family = off_path.family_breaker
    if decision.fleet is not None:
        return _emitting(plan, decision.fleet, function, full)
    if family is not None:
        return _in_family(plan, off_path, family, function, full)
    circuits, sessions, clock = decision.local.circuits, session_stack.get, decision.clock
    rejected = decision.reporter.credentials.runs
    routed = plan.runtime.fallbacks.named

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None:
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
            off_path.failed(error, args, kwargs, off_path.permit(circuit, quiet, None))
            raise
        if type(result) not in HARMLESS and _needs_report(result):
            return off_path.finish(result, args, kwargs, off_path.permit(circuit, quiet, None))
        if circuit.breaker.quiet is not quiet:
            off_path.permit(circuit, quiet, None).success()
        return result

    return call


def plain_async_guard(plan: GuardPlan, function: Coroutine, full: Coroutine) -> Coroutine:
    """:func:`plain_guard` for coroutine functions."""
    decision = plan.runtime.decision
    tool, off_path = plan.tool, _OffPath(plan, function)
    family = off_path.family_breaker
    if decision.fleet is not None:
        return _emitting_async(plan, decision.fleet, function, full)
    if family is not None:
        return _in_family_async(plan, off_path, family, function, full)
    circuits, sessions, clock = decision.local.circuits, session_stack.get, decision.clock
    rejected = decision.reporter.credentials.runs
    routed = plan.runtime.fallbacks.named

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None:
            return await full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        if quiet is None:
            refusal = None if tool in routed else circuit.refusal(tool, clock(), None)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await full(*args, **kwargs)
        started = clock()
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            off_path.failed(error, args, kwargs, off_path.permit(circuit, quiet, None, started))
            raise
        if type(result) not in HARMLESS and classify_result(result) is not None:
            return off_path.finish(result, args, kwargs, off_path.permit(circuit, quiet, None, started))
        if circuit.breaker.quiet is not quiet:
            off_path.permit(circuit, quiet, None, started).success()
        return result

    return call


def _in_family(plan: GuardPlan, off_path: _OffPath, family: Breaker, function: Function, full: Function) -> Function:
    """Return :func:`plain_guard` for a tool with a family. It is apart, because a check more shows in the time of a call."""
    tool, decision = plan.tool, plan.runtime.decision
    circuits, sessions = decision.local.circuits, session_stack.get
    rejected = decision.reporter.credentials.runs
    routed, refused_at_once = plan.runtime.fallbacks.named, decision.refused_at_once

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None:
            return full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        of_family = family.quiet
        if quiet is None or of_family is None:
            refusal = None if tool in routed else refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return full(*args, **kwargs)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            off_path.failed(error, args, kwargs, off_path.permit(circuit, quiet, of_family))
            raise
        if type(result) not in HARMLESS and _needs_report(result):
            return off_path.finish(result, args, kwargs, off_path.permit(circuit, quiet, of_family))
        if circuit.breaker.quiet is not quiet or family.quiet is not of_family:
            off_path.permit(circuit, quiet, of_family).success()
        return result

    return call


def _in_family_async(
    plan: GuardPlan, off_path: _OffPath, family: Breaker, function: Coroutine, full: Coroutine
) -> Coroutine:
    """Return :func:`plain_async_guard` for a tool with a family. It is apart, because a check more shows in the time of a call."""
    tool, decision = plan.tool, plan.runtime.decision
    circuits, sessions, clock = decision.local.circuits, session_stack.get, decision.clock
    rejected = decision.reporter.credentials.runs
    routed, refused_at_once = plan.runtime.fallbacks.named, decision.refused_at_once

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None:
            return await full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        of_family = family.quiet
        if quiet is None or of_family is None:
            refusal = None if tool in routed else refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await full(*args, **kwargs)
        started = clock()
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            off_path.failed(error, args, kwargs, off_path.permit(circuit, quiet, of_family, started))
            raise
        if type(result) not in HARMLESS and classify_result(result) is not None:
            return off_path.finish(result, args, kwargs, off_path.permit(circuit, quiet, of_family, started))
        if circuit.breaker.quiet is not quiet or family.quiet is not of_family:
            off_path.permit(circuit, quiet, of_family, started).success()
        return result

    return call


def _emitting(  # noqa: C901 - a function call would cost a tenth of the common call
    plan: GuardPlan, fleet: FleetCircuits, function: Function, full: Function
) -> Function:
    """Return :func:`plain_guard` with the fleet's view before the call and an event after it."""
    runtime, tool, off_path = plan.runtime, plan.tool, _OffPath(plan, function)
    own = tool_circuit(tool)
    decision = runtime.decision
    circuits, sessions, clock = decision.local.circuits, session_stack.get, decision.clock
    rejected = decision.reporter.credentials.runs
    views, scoped, follower, emitter = fleet.views, fleet.scoped, fleet.follower, fleet.emitter
    routed, refused_at_once = runtime.fallbacks.named, decision.refused_at_once
    items, limit = _room(emitter, clock)
    family, families = off_path.family_breaker, fleet.families
    family_id = "" if off_path.family is None else off_path.family.circuit_id

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None or not runtime.started:
            return full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(own)
        unknown, of_family, family_generation = 0 if follower.loaded else None, None, None
        if family is not None:
            of_family, family_view = family.quiet, views.get(family_id) if families else None
            family_generation = unknown if family_view is None else family_view.generation
            if of_family is None or (family_view is not None and not family_view.plain):
                quiet = None
        if quiet is None or (view is not None and not view.plain) or (scoped and tool in scoped):
            refusal = None if tool in routed else refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return full(*args, **kwargs)
        generation = unknown if view is None else view.generation
        started = clock()
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            off_path.failed(
                error, args, kwargs, off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
            )
            raise
        if type(result) not in HARMLESS and _needs_report(result):
            return off_path.finish(
                result, args, kwargs, off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
            )
        if (
            circuit.breaker.quiet is not quiet
            or (family is not None and family.quiet is not of_family)
            or len(items) >= limit
        ):
            off_path.permit(circuit, quiet, of_family, started, generation, family_generation).success()
            return result
        items.append((tool, started, clock(), generation, family_generation))
        if emitter.idle:  # read after the append: the background thread looks at the buffer again after it sets this
            _wake(emitter, items)
        return result

    return call


def _emitting_async(  # noqa: C901 - as above
    plan: GuardPlan, fleet: FleetCircuits, function: Coroutine, full: Coroutine
) -> Coroutine:
    runtime, tool, off_path = plan.runtime, plan.tool, _OffPath(plan, function)
    own = tool_circuit(tool)
    decision = runtime.decision
    circuits, sessions, clock = decision.local.circuits, session_stack.get, decision.clock
    rejected = decision.reporter.credentials.runs
    views, scoped, follower, emitter = fleet.views, fleet.scoped, fleet.follower, fleet.emitter
    routed, refused_at_once = runtime.fallbacks.named, decision.refused_at_once
    items, limit = _room(emitter, clock)
    family, families = off_path.family_breaker, fleet.families
    family_id = "" if off_path.family is None else off_path.family.circuit_id

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or rejected or sessions() is not None or not runtime.started:
            return await full(*args, **kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(own)
        unknown, of_family, family_generation = 0 if follower.loaded else None, None, None
        if family is not None:
            of_family, family_view = family.quiet, views.get(family_id) if families else None
            family_generation = unknown if family_view is None else family_view.generation
            if of_family is None or (family_view is not None and not family_view.plain):
                quiet = None
        if quiet is None or (view is not None and not view.plain) or (scoped and tool in scoped):
            refusal = None if tool in routed else refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await full(*args, **kwargs)
        generation = unknown if view is None else view.generation
        started = clock()
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            off_path.failed(
                error, args, kwargs, off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
            )
            raise
        if type(result) not in HARMLESS and classify_result(result) is not None:
            return off_path.finish(
                result, args, kwargs, off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
            )
        if (
            circuit.breaker.quiet is not quiet
            or (family is not None and family.quiet is not of_family)
            or len(items) >= limit
        ):
            off_path.permit(circuit, quiet, of_family, started, generation, family_generation).success()
            return result
        items.append((tool, started, clock(), generation, family_generation))
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
