"""The common call, and nothing else: a guard without options, on a circuit that has nothing against the call.

Everything a call needs is bound once, when the function is decorated. A call then reads the circuit's ``quiet`` permit
(:class:`~switchgear.breaker.core.Core`), the fleet's view and the clocks, and leaves one tuple in the emitter's buffer: the
event, its identity and its bytes are made of it in the background. Whatever is not as simple as that goes the exact way: a
session, a hook, a circuit that is open or counts failures, an exception.

Successes that are left out here are missing from the calls in :meth:`~switchgear.breaker.core.Core.counts`, and from nothing
else: no rule of such a circuit asks for them.
"""

# ruff: noqa: SLF001 - the inner half of the gate and the emitter

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from switchgear.classify.result import HARMLESS, failure_in, text_in
from switchgear.emitter.event import Event
from switchgear.guard.argument_mismatch import is_argument_mismatch, is_awaitable_argument_mismatch
from switchgear.guard.deferred_results import is_no_plain_success, told_of
from switchgear.guard.permits import NOBODY, Permit
from switchgear.guard.rejections import CircuitOpenError
from switchgear.sessions.session import session_stack

if TYPE_CHECKING:
    from switchgear.emitter.buffer import Item
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.decision import Gate
    from switchgear.guard.runtime import Runtime


Function = Callable[..., Any]
Coroutine = Callable[..., Awaitable[Any]]

_NO_BUFFER: Final[deque[Item]] = deque()


def plain_guard(runtime: Runtime, tool: str, function: Function, rich: Function) -> Function:
    """``function`` behind ``tool``'s circuit; the caller gives it its name and signature.

    Args:
        runtime: what the calls of the client share: its circuits decide.
        tool: the circuit's name.
        function: what is guarded; not a coroutine function.
        rich: ``rich(args, kwargs)`` does all that a guard may have to do; called for all but the common case.
    """
    gate = runtime.gate
    if gate._emitter is not None:
        return _emitting(runtime, gate, tool, function, rich)
    circuits, session, clock = gate.local.circuits, session_stack.get, gate._clock

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or session():
            return rich(args, kwargs)
        quiet = circuit.breaker.quiet
        if quiet is None:
            refusal = circuit.refusal(tool, clock(), None)
            if refusal is not None and tool not in gate.routed:
                raise CircuitOpenError(refusal)
            return rich(args, kwargs)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            _failed(function, error, Permit(gate, tool, circuit, quiet, clock(), None, NOBODY))
            raise
        if type(result) not in HARMLESS and is_no_plain_success(result):
            return told_of(Permit(gate, tool, circuit, quiet, clock(), None, NOBODY), result)
        if circuit.breaker.quiet is not quiet:
            Permit(gate, tool, circuit, quiet, clock(), None, NOBODY).success()
        return result

    return call


def plain_async_guard(runtime: Runtime, tool: str, function: Coroutine, rich: Coroutine) -> Coroutine:
    """:func:`plain_guard` for a coroutine function; it stays one."""
    gate = runtime.gate
    if gate._emitter is not None:
        return _emitting_async(runtime, gate, tool, function, rich)
    circuits, session, clock = gate.local.circuits, session_stack.get, gate._clock

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or session():
            return await rich(args, kwargs)
        quiet = circuit.breaker.quiet
        if quiet is None:
            refusal = circuit.refusal(tool, clock(), None)
            if refusal is not None and tool not in gate.routed:
                raise CircuitOpenError(refusal)
            return await rich(args, kwargs)
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            _afailed(function, error, Permit(gate, tool, circuit, quiet, clock(), None, NOBODY))
            raise
        if type(result) not in HARMLESS and (failure := failure_in(result)) is not None:
            Permit(gate, tool, circuit, quiet, clock(), None, NOBODY).failure(text_in(result), classification=failure)
            return result
        if circuit.breaker.quiet is not quiet:
            Permit(gate, tool, circuit, quiet, clock(), None, NOBODY).success()
        return result

    return call


def _emitting(runtime: Runtime, gate: Gate, tool: str, function: Function, rich: Function) -> Function:
    """With the fleet's view before the call and an event after it."""
    circuits, views, scoped, session = gate.local.circuits, gate._views, gate._scoped, session_stack.get
    clock, wall, follower, emitter = gate._clock, gate._wall, gate._follower, gate._emitter
    assert emitter is not None
    assert follower is not None
    direct = emitter.takes_tuples and clock is time.monotonic  # the clock that the emitter goes by
    items, limit = (emitter.buffer.items, emitter.buffer.limit) if direct else (_NO_BUFFER, 0)

    def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or session() or not runtime.started:
            return rich(args, kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(tool)
        if quiet is None or (view is not None and (not view.passes or view.overrides)) or (scoped and tool in scoped):
            refusal = gate.refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return rich(args, kwargs)
        generation = view.generation if view is not None else 0 if follower.loaded else None
        started = clock()
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            _failed(function, error, Permit(gate, tool, circuit, quiet, started, generation, NOBODY))
            raise
        if type(result) not in HARMLESS and is_no_plain_success(result):
            return told_of(Permit(gate, tool, circuit, quiet, started, generation, NOBODY), result)
        if circuit.breaker.quiet is not quiet:
            Permit(gate, tool, circuit, quiet, started, generation, NOBODY).success()
            return result
        ended = clock()
        if len(items) >= limit:
            emitter.emit(Event(tool, "success", (ended - started) * 1000, generation), ended_at=wall())
            return result
        items.append((tool, started, ended, generation))
        if emitter.idle:  # asked after the append: the background looks at the buffer again after it has set this
            _wake(emitter, items)
        return result

    return call


def _failed(function: Function, error: BaseException, permit: Permit) -> None:
    if not is_argument_mismatch(function, error):  # arguments that don't fit say nothing of the tool
        permit.failure(error)


def _afailed(function: Coroutine, error: BaseException, permit: Permit) -> None:
    if not is_awaitable_argument_mismatch(function, error):
        permit.failure(error)


def _wake(emitter: Emitter, items: deque[Item]) -> None:
    """The background sleeps: for want of events, or for ever."""
    if emitter.closed:
        with contextlib.suppress(IndexError):  # another thread was as fast
            items.pop()
    else:
        emitter.wake(urgent=False)


def _emitting_async(runtime: Runtime, gate: Gate, tool: str, function: Coroutine, rich: Coroutine) -> Coroutine:
    circuits, views, scoped, session = gate.local.circuits, gate._views, gate._scoped, session_stack.get
    clock, wall, follower, emitter = gate._clock, gate._wall, gate._follower, gate._emitter
    assert emitter is not None
    assert follower is not None
    direct = emitter.takes_tuples and clock is time.monotonic  # the clock that the emitter goes by
    items, limit = (emitter.buffer.items, emitter.buffer.limit) if direct else (_NO_BUFFER, 0)

    async def call(*args: Any, **kwargs: Any) -> Any:
        circuit = circuits.get(tool)
        if circuit is None or session() or not runtime.started:
            return await rich(args, kwargs)
        quiet = circuit.breaker.quiet
        view = views.get(tool)
        if quiet is None or (view is not None and (not view.passes or view.overrides)) or (scoped and tool in scoped):
            refusal = gate.refused_at_once(tool, circuit)
            if refusal is not None:
                raise CircuitOpenError(refusal)
            return await rich(args, kwargs)
        generation = view.generation if view is not None else 0 if follower.loaded else None
        started = clock()
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            _afailed(function, error, Permit(gate, tool, circuit, quiet, started, generation, NOBODY))
            raise
        if type(result) not in HARMLESS and (failure := failure_in(result)) is not None:
            Permit(gate, tool, circuit, quiet, started, generation, NOBODY).failure(
                text_in(result), classification=failure
            )
            return result
        if circuit.breaker.quiet is not quiet:
            Permit(gate, tool, circuit, quiet, started, generation, NOBODY).success()
            return result
        ended = clock()
        if len(items) >= limit:
            emitter.emit(Event(tool, "success", (ended - started) * 1000, generation), ended_at=wall())
            return result
        items.append((tool, started, ended, generation))
        if emitter.idle:  # see above
            _wake(emitter, items)
        return result

    return call
