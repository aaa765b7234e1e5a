"""The complete way of a call, synchronous and asynchronous: ask, wait where it must be, call, report."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any, TypeVar

from switchgear.answer import Answer
from switchgear.guard.call import Call, Steps, probing, standing_in
from switchgear.guard.call_key import CallKey
from switchgear.guard.finished import finished, serves_many
from switchgear.guard.plan import Plan
from switchgear.guard.runtime import Runtime
from switchgear.guard.time_limit import Work, check_in_task, within

T = TypeVar("T")
Function = Callable[..., Any]
Arguments = tuple[Any, ...]


def call_through(plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any]) -> Any:
    """Call ``function`` as ``plan`` says.

    Raises:
        CircuitOpenError: refused, and nothing else serves.
        CallTimeoutError, ThreadsBusyError: of a plan with a time limit.
    """
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "function")) is not None:
        return _flown(plan, function, args, kwargs, key, flight).value
    return _run(Call(plan, "function", function, args, kwargs, key))


def answer_through(plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any]) -> Answer[Any]:
    """:func:`call_through` that tells where the result came from."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "function")) is not None:
        return _flown(plan, function, args, kwargs, key, flight)
    call = Call(plan, "function", function, args, kwargs, key)
    _run(call)
    return call.answer()


async def acall_through(plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any]) -> Any:
    """:func:`call_through` for coroutine functions, and for functions that return an awaitable."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "coroutine")) is not None:
        return (await _aflown(plan, function, args, kwargs, key, flight)).value
    return await _arun(Call(plan, "coroutine", function, args, kwargs, key))


async def aanswer_through(plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any]) -> Answer[Any]:
    """:func:`acall_through` that tells where the result came from."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "coroutine")) is not None:
        return await _aflown(plan, function, args, kwargs, key, flight)
    call = Call(plan, "coroutine", function, args, kwargs, key)
    await _arun(call)
    return call.answer()


def prepare(call: Call) -> None:
    """Get ``call`` to where it is to be made, or done; waits for a probe lease where one was asked for."""
    answer = call.first()
    if call.permit is None and answer is not None:
        _drive(call.otherwise(answer), call.plan.runtime)


async def aprepare(call: Call) -> None:
    """:func:`prepare` that does not block the event loop."""
    await call.plan.runtime.astart()
    answer = call.first()
    if call.permit is None and answer is not None:
        await _adrive(call.otherwise(answer), call.plan.runtime)


def _run(call: Call) -> Any:
    prepare(call)
    if call.done:
        return call.value
    if call.permit is None:
        return _instead(call)
    probe = probing.set((*probing.get(), (call.plan.runtime, call.permit))) if call.permit.probe else None
    try:
        return _called(call)
    finally:
        if probe is not None:
            _restore(probing, probe)


def _called(call: Call) -> Any:
    limit = call.acting.timeout
    work = None if limit is None else _handed_over(call, limit)
    try:
        result = call.function(*call.args, **call.kwargs) if work is None else work.wait()
    except BaseException as error:
        _failed(call, work, error)
        raise
    return finished(call, result)


def _handed_over(call: Call, limit: float) -> Work:
    asked_at = call.clock()
    try:
        work = call.plan.runtime.threads.hand_over(call.tool, limit, call.function, call.args, call.kwargs)
    except BaseException:  # no thread was free, or the caller was interrupted while it waited for one
        call.not_made()
        raise
    return _queued(call, work, asked_at)


def _queued(call: Call, work: Work, asked_at: float) -> Work:
    """The wait for a thread, which others took, is no time of the tool."""
    if work.queued_s:
        call.paused(min(work.queued_s, call.clock() - asked_at))
    return work


def _failed(call: Call, work: Work | None, error: BaseException) -> None:
    if work is not None and work.cut_short(error):
        call.cut_short(error)
    else:
        call.failed(error)


def _instead(call: Call) -> Any:
    """The user's own function for a refused tool: no circuit, no time limit, and not again within itself."""
    with _standing_in(call):
        try:
            result = call.function(*call.args, **call.kwargs)
        except BaseException as error:
            if call.not_stood_in(error):
                return call.value
            raise
    call.stood_in(result)
    return result


@contextlib.contextmanager
def _standing_in(call: Call) -> Iterator[None]:
    """A user's own function stands in for the tool here."""
    token = standing_in.set(standing_in.get() | {(call.plan.runtime, call.plan.tool)})
    try:
        yield
    finally:
        _restore(standing_in, token)


def _restore(variable: ContextVar[T], token: Token[T]) -> None:
    with contextlib.suppress(ValueError):  # ended in another context, where it was not set
        variable.reset(token)


async def _arun(call: Call) -> Any:
    await aprepare(call)
    if call.done:
        return call.value
    if call.permit is None:
        return await _ainstead(call)
    probe = probing.set((*probing.get(), (call.plan.runtime, call.permit))) if call.permit.probe else None
    try:
        return await _acalled(call)
    finally:
        if probe is not None:
            _restore(probing, probe)


async def _acalled(call: Call) -> Any:
    limit = call.acting.timeout
    check_timed(call)
    work = await _ahanded_over(call, limit) if call.blocks and limit is not None else None
    try:
        if limit is None:
            made = call.function(*call.args, **call.kwargs)
            call.entered = True
            result = await made if inspect.isawaitable(made) else made
        else:
            result = await within(call.tool, limit, _made(call, work), work=work)
    except BaseException as error:
        _failed(call, work, error)
        raise
    call.succeeded(result)
    return result


def check_timed(call: Call) -> None:
    """Where a time limit can't be kept the call is not made.

    Raises:
        SwitchgearError: it has one, and there is no task to cancel.
    """
    if call.acting.timeout is None or call.permit is None:
        return
    try:
        check_in_task(call.tool)
    except BaseException:
        call.not_made()
        raise


async def _made(call: Call, work: Work | None) -> Any:
    made = call.function(*call.args, **call.kwargs) if work is None else await work.until()
    call.entered = True
    return await settled(made)


async def _ahanded_over(call: Call, limit: float) -> Work:
    asked_at = call.clock()
    try:
        work = await call.plan.runtime.threads.ahand_over(call.tool, limit, call.function, call.args, call.kwargs)
    except BaseException:  # as above
        call.not_made()
        raise
    return _queued(call, work, asked_at)


async def _ainstead(call: Call) -> Any:
    with _standing_in(call):
        try:
            result = await settled(call.function(*call.args, **call.kwargs))
        except BaseException as error:
            if call.not_stood_in(error):
                return call.value
            raise
    call.stood_in(result)
    return result


def _flown(
    plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any], key: CallKey, flight: Hashable
) -> Answer[Any]:
    def fly() -> Answer[Any]:
        call = Call(plan, "function", function, args, kwargs, key)
        _run(call)
        return call.answer()

    shared = plan.runtime.stores.flights.do(flight, fly, wait_s=plan.timeout, serves=serves_many)
    if not shared.leader:
        plan.noted(plan.session_id(), key)
    return shared.value


async def _aflown(
    plan: Plan, function: Function, args: Arguments, kwargs: Mapping[str, Any], key: CallKey, flight: Hashable
) -> Answer[Any]:
    async def fly() -> Answer[Any]:
        call = Call(plan, "coroutine", function, args, kwargs, key)
        await _arun(call)
        return call.answer()

    shared = await plan.runtime.stores.flights.ado(flight, fly, wait_s=plan.timeout, serves=serves_many)
    if not shared.leader:
        plan.noted(plan.session_id(), key)
    return shared.value


def _drive(steps: Steps, runtime: Runtime) -> None:
    try:
        asking = next(steps)
        while True:
            asking = steps.send(runtime.wait(asking))
    except StopIteration:
        return


async def _adrive(steps: Steps, runtime: Runtime) -> None:
    try:
        asking = next(steps)
        while True:
            asking = steps.send(await runtime.until(asking))
    except StopIteration:
        return


async def settled(value: Any) -> Any:
    """The result of an awaitable, or the value that is none."""
    return await value if inspect.isawaitable(value) else value
