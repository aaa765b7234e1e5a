"""Calls through the gate: how a refusal becomes a fallback or an exception, for functions and coroutines alike."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from switchgear.fallback import choose
from switchgear.guard.permit import Permit
from switchgear.guard.rejection import Rejection

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear.client import Switchgear

log: Final = logging.getLogger("switchgear.guard")
P = ParamSpec("P")
R = TypeVar("R")

Fallback = str | Sequence[str] | Callable[..., Any] | None
"""The tool to use instead, a chain of them, or a function that takes the same arguments."""


def guarded(gear: Switchgear, tool: str, function: Callable[P, R], fallback: Fallback) -> Callable[P, R]:
    """``function`` behind ``tool``'s circuit, with its signature; a coroutine function stays one."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
            return await acall_through(gear, tool, function, fallback, args, kwargs)

        return cast("Callable[P, R]", coroutine)

    @functools.wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        found: R = call_through(gear, tool, function, fallback, args, kwargs)
        return found

    return plain


def call_through(
    gear: Switchgear, tool: str, function: Callable[..., Any], fallback: Fallback, args: Any, kwargs: Any
) -> Any:
    """Ask, call, report."""
    answer = gear._decide(tool)  # noqa: SLF001 - the inner half of the same object
    if isinstance(answer, Rejection):
        target = _instead(gear, answer, fallback)
        if not isinstance(target, tuple):
            return target(*args, **kwargs)
        answer, function = target
    _hash(gear, answer, args, kwargs)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        answer.failure(error)
        raise
    answer.success()
    return result


async def acall_through(
    gear: Switchgear, tool: str, function: Callable[..., Awaitable[Any]], fallback: Fallback, args: Any, kwargs: Any
) -> Any:
    """Ask, await, report."""
    answer = await gear._adecide(tool)  # noqa: SLF001 - the inner half of the same object
    if isinstance(answer, Rejection):
        target = _instead(gear, answer, fallback)
        if not isinstance(target, tuple):
            return await _settled(target(*args, **kwargs))
        answer, function = target
    _hash(gear, answer, args, kwargs)
    try:
        result = await _settled(function(*args, **kwargs))
    except BaseException as error:
        answer.failure(error)
        raise
    answer.success()
    return result


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _hash(gear: Switchgear, permit: Permit, args: Any, kwargs: Any) -> None:
    if gear._hasher is not None:  # noqa: SLF001 - the inner half of the same object
        try:
            permit.parameters_hash = gear._hasher(args, kwargs)  # noqa: SLF001
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
            log.warning("parameters of %s have no hash: %s: %s", permit.tool, type(error).__name__, error)


def _instead(
    gear: Switchgear, refusal: Rejection, fallback: Fallback
) -> Callable[..., Any] | tuple[Permit, Callable[..., Any]]:
    """What to call after a refusal: the user's function as it is, or a tool's with its permit.

    Raises:
        CircuitOpenError: there is nothing else to call here; its ``fallback`` names a tool the caller may have elsewhere.
    """
    if callable(fallback):
        gear._report(refusal, served_by="fallback", fallback_tool=getattr(fallback, "__qualname__", None))  # noqa: SLF001
        return fallback
    chain = (fallback,) if isinstance(fallback, str) else tuple(fallback or ())
    chain = chain or gear._fleet_fallback(refusal.tool)  # noqa: SLF001
    target = choose(refusal.tool, chain, lambda tool: tool == refusal.tool or gear.is_open(tool))
    function = None if target is None else gear._functions.get(target)  # noqa: SLF001
    if target is None or function is None or (target == refusal.tool and refusal.state == "forced_open"):
        named = refusal if target in {None, refusal.tool} else _naming(refusal, target)
        gear._report(named)  # noqa: SLF001
        raise named.error()
    if target == refusal.tool:  # all are open: never eject everything
        return gear._gate.unguarded(target), function  # noqa: SLF001
    permit = gear._decide(target)  # noqa: SLF001
    if isinstance(permit, Rejection):  # opened this instant
        gear._report(refusal)  # noqa: SLF001
        raise refusal.error()
    gear._report(refusal, served_by="fallback", fallback_tool=target)  # noqa: SLF001
    return permit, function


def _naming(refusal: Rejection, target: str | None) -> Rejection:
    return Rejection(
        refusal.tool,
        refusal.state,
        refusal.source,
        refusal.reason,
        refusal.retry_after_s,
        refusal.last_error,
        target,
        refusal.generation,
    )


class Passage:
    """``with gear.permit("tool") as permit:`` — a clean end is a success, an exception a failure; ``async with`` likewise.

    Report by hand within the block where more is known: the first report counts.

    Raises:
        CircuitOpenError: on entering, when the circuit refuses.
    """

    def __init__(
        self, gear: Switchgear, tool: str, user_id: str, session_id: str | None, request_id: str | None
    ) -> None:
        self._gear = gear
        self._asked = (tool, user_id, session_id, request_id)
        self._permit: Permit | None = None

    def __enter__(self) -> Permit:
        return self._entered(self._gear._decide(*self._asked))  # noqa: SLF001 - the inner half of the same object

    async def __aenter__(self) -> Permit:
        return self._entered(await self._gear._adecide(*self._asked))  # noqa: SLF001

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._permit is not None
        if error is None:
            self._permit.success()
        else:
            self._permit.failure(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _entered(self, answer: Permit | Rejection) -> Permit:
        if isinstance(answer, Rejection):
            self._gear._report(answer)  # noqa: SLF001
            raise answer.error()
        self._permit = answer
        return answer


async def until(answer: Future[None], limit: float) -> None:
    """Wait for ``answer`` at most ``limit`` seconds, without blocking the loop."""
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    await asyncio.wait([asyncio.wrap_future(answer)], timeout=limit)
