"""What a function returned, and what that says of its call: it ended, well or not, or is still to be awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from switchgear.guard.later import awaits, later
from switchgear.guard.result_failure import HARMLESS, failure_in, text_in

if TYPE_CHECKING:
    from switchgear.answer import Answer
    from switchgear.guard.call import Call
    from switchgear.guard.permit import Permit


def serves_once(result: Any) -> bool:
    """Its first reader uses it up: an awaitable, an iterator, an open file."""
    kind = type(result)
    return any(hasattr(kind, name) for name in ("__await__", "__next__", "__anext__"))


def serves_many(answer: Answer[Any]) -> bool:
    """May several callers have this answer?"""
    return not serves_once(answer.value)


def finished(call: Call, result: Any) -> Any:
    """Report that ``call`` returned ``result``, now or when it is awaited; returns what its caller gets."""
    if type(result) in HARMLESS or call.permit is None or not awaits(result):
        call.succeeded(result)
        return result
    call.key = None  # it is kept for nobody
    call.entered = True
    call.value = later(result, call, _pause(call.permit, call.clock))
    return call.value


def is_no_plain_success(result: Any) -> bool:
    """It is still to be awaited, or tells of a failure."""
    return (type(result) is not dict and awaits(result)) or failure_in(result) is not None


def told_of(permit: Permit, result: Any) -> Any:
    """:func:`finished` of a call that has nothing but its ``permit``."""
    report, gate = _OfPermit(permit), permit._gate  # noqa: SLF001 - the permit is ours
    if awaits(result):
        return later(result, report, None if gate is None else _pause(permit, gate._clock))  # noqa: SLF001
    report.succeeded(result)
    return result


def _pause(permit: Permit, clock: Callable[[], float]) -> Callable[[], None]:
    """To be called when the caller goes on with it: from here until then the call waited for him, not for the tool."""
    returned_at = clock()
    return lambda: permit.paused(clock() - returned_at)


class _OfPermit:
    __slots__ = ("_permit",)

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    def succeeded(self, result: Any) -> None:
        failure = failure_in(result)
        if failure is None:
            self._permit.success()
        else:
            self._permit.failure(text_in(result), classification=failure)

    def failed(self, error: BaseException) -> None:
        self._permit.failure(error)

    def not_made(self) -> None:
        self._permit.release()
