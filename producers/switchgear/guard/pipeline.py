"""The order of a guarded call: single flight, repeated calls, cache, session limits, caller errors and circuit, fallback, time limit, function.

Here are the two drivers that wait: one for functions, one for coroutine functions. :class:`~switchgear.guard.call.Call` is
plain code without waits.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from switchgear.caching.call_key import token_of
from switchgear.guard.attempts import Pending
from switchgear.guard.call import Call, GuardPlan, serves_once
from switchgear.guard.deferred_results import finish
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import REPLACEABLE, Rejection
from switchgear.guard.rerouting import Waits, find_fallback
from switchgear.guard.time_limit import within
from switchgear.sessions import session_of

Function = Callable[..., Any]
Args = tuple[Any, ...]


def run(plan: GuardPlan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Call:
    """Make the call, or share the same call of another thread or task. Its ``value`` is the result.

    Raises:
        CircuitOpenError: The call is refused, and nothing else serves the caller.
        CallTimeoutError: It exceeded its time limit.
        ThreadsBusyError: It has a time limit, and no thread was free.
    """
    call = Call(plan, "function", function, args, kwargs)
    flight = _flight(call)
    if flight is None:
        return _run(call)
    shared = plan.runtime.flights.do(flight, lambda: _run(call), wait_s=plan.options.timeout, serves=_serves_many)
    if not shared.leader:
        call.count_repetition()
    return shared.value


async def arun(plan: GuardPlan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Call:
    """:func:`run` for coroutine functions, and for functions that return an awaitable."""
    call = Call(plan, "coroutine", function, args, kwargs)
    flight = _flight(call)
    if flight is None:
        return await _arun(call)
    shared = await plan.runtime.flights.ado(
        flight, lambda: _arun(call), wait_s=plan.options.timeout, serves=_serves_many
    )
    if not shared.leader:
        call.count_repetition()
    return shared.value


def _flight(call: Call) -> Hashable | None:
    """Return what identical calls have in common; None for a call that is always made.

    One session's limits and circuits must not answer for another's, so calls of different sessions have nothing in common.
    """
    plan, key = call.plan, call.key
    if not plan.options.single_flight or key is None or key.call is None:
        return None
    session = session_of(plan.runtime)
    return plan.tool, call.kind, key.call, None if session is None else token_of(session)


def _serves_many(call: Call) -> bool:
    return not serves_once(call.value)


# -- the drivers ------------------------------------------------------------------------------------------------------


def _run(call: Call) -> Call:
    prepare(call)
    if not call.done:
        with call:
            result = _called(call)
        finish(call, result)
    return call


async def _arun(call: Call) -> Call:
    await aprepare(call)
    if not call.done:
        with call:
            result = await _acalled(call)
        call.succeeded(result)
    return call


def prepare(call: Call) -> None:
    """Take ``call`` to where it is made, or done. Wait for a probe if one was requested."""
    found = call.begin()
    if found is None:
        return
    waits = _go_on(call, found)
    with contextlib.suppress(StopIteration):
        pending = next(waits)
        while True:
            pending = waits.send(call.plan.runtime.wait(pending))


async def aprepare(call: Call) -> None:
    """:func:`prepare` without blocking the event loop."""
    runtime = call.plan.runtime
    await runtime.astart()
    found = call.begin()
    if found is not None:
        waits = _go_on(call, found)
        with contextlib.suppress(StopIteration):
            pending = next(waits)
            while True:
                pending = waits.send(await runtime.until(pending))


def _go_on(call: Call, found: Rejection | Pending) -> Waits:
    """After a refusal, look for something else that serves the caller."""
    answer = (yield found) if isinstance(found, Pending) else found
    if isinstance(answer, Permit):
        call.permitted(answer)
        return None
    runtime, refusal = call.plan.runtime, answer
    if refusal.source in REPLACEABLE:
        standing = yield from find_fallback(call, refusal)
        if standing is None:
            return None
        refusal = standing
    if refusal.source not in {"duplicate", "caller", "credential"}:
        if call.answer_from_cache(stale=True):
            runtime.refused(refusal, served_by="cache")
            return None
        call.take_back_repetition()
    runtime.refused(refusal)
    raise refusal.error()


# -- the function within its time limit -------------------------------------------------------------------------------


def _called(call: Call) -> Any:
    limit = time_limit(call)
    if limit is None:
        return call.make()
    threads, asked_at = call.plan.runtime.threads, call.clock()
    call.rests()
    try:
        started = threads.start(call.tool, limit, call.make)
    except BaseException:  # no thread was free, or the caller was interrupted while it waited for one
        call.not_made()
        raise
    call.paused(call.clock() - asked_at)  # the tool is not slow because other calls took the threads
    return threads.result(started, call.tool, limit)


async def _acalled(call: Call) -> Any:
    limit = time_limit(call)
    return await (_made(call) if limit is None else within(call.tool, limit, _made(call)))


async def _made(call: Call) -> Any:
    made = call.make()
    return await made if inspect.isawaitable(made) else made


def time_limit(call: Call) -> float | None:
    """Return the call's time limit. A user's own function that stands in has none."""
    return None if call.permit is None else call.acting.options.timeout
