"""AgentCircuitBreaker: the class of the "agent circuit breaker" pattern, on this project's state machine.

Surface, numbers and message are those of agentic-patterns.com/patterns/agent-circuit-breaker. Where its twenty lines do what
none of its users can want, this differs:

* a success ends a run of failures (there, three failures in a lifetime opened the circuit);
* after the cooldown exactly one call probes, the others are refused until it is back (there, all went);
* a call that began before the circuit opened and fails after it does not lengthen the cooldown;
* a cancelled or interrupted probe frees its place (there, the circuit stayed half-open without a limit);
* what a tool gives to be awaited or iterated is judged by its end (there, by its beginning).
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear.guard.deferred_results import awaits, later
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.rejections import Rejection as CallRejection
from switchgear.guard.streams import END, aiterated, iterated
from switchgear.numeric import is_number, is_whole, possible_wait
from switchgear.redaction.redact import redact
from switchgear.runtime.fork import ForkSafe
from switchgear_schemas.enums import MOST_CALLS, CircuitState
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.policy import BreakerPolicy

if TYPE_CHECKING:
    from switchgear.guard.deferred_results import Report


P = ParamSpec("P")
R = TypeVar("R")
_FAILED = Result(ResultKind.FAILURE)
_SUCCEEDED = Result(ResultKind.SUCCESS)


class ToolDisabledError(CircuitOpenError):
    """The CircuitOpenError that an AgentCircuitBreaker raises. ``message`` is the pattern's, and its text begins with it."""

    def __init__(self, rejection: CallRejection | str = "", cooldown: float = 0.0) -> None:
        super().__init__(rejection)
        self.cooldown = cooldown
        if isinstance(rejection, CallRejection):
            self.message = f"Circuit open — tool disabled for {cooldown}s"
            self.hint = ""

    @property
    def text(self) -> str:
        """For the model: the pattern's message, then what the tool is, and not to try again before when."""
        text = super().text
        return f"{self.message}. {text}" if self.tool else text

    def __reduce__(self) -> tuple[type[CircuitOpenError], tuple[Any, ...], dict[str, Any]]:
        kind, made_of, state = super().__reduce__()
        return kind, (*made_of, self.cooldown), state


class AgentCircuitBreaker(ForkSafe):
    """One tool's circuit, for one process and as long as this object lives: make one a tool and session.

    Every ``Exception`` of the tool counts as a failure, as in the pattern. Thread-safe, and for coroutine functions too.
    ``Switchgear.local()`` does the same with classification, fallbacks and the rest.

    Args:
        failure_threshold: Failures in a row that open the circuit.
        cooldown_seconds: From then until one call may probe.
        clock: Seconds; ``opened_at`` is one of its instants.
        max_probe_seconds: A probe that is not back by then is lost, and the circuit open again.

    Attributes:
        threshold: ``failure_threshold``. Set it, and it holds from the next failure on.
        cooldown: ``cooldown_seconds``. Set it, and it holds at once, also for an open circuit.

    Raises:
        SettingsError: naming the argument or attribute that is out of range.
    """

    def __init__(
        self,
        failure_threshold: int = 3,
        cooldown_seconds: float = 60,
        *,
        clock: Callable[[], float] = time.time,
        max_probe_seconds: float = 600.0,
    ) -> None:
        super().__init__()
        _check_threshold("failure_threshold", failure_threshold)
        _check_cooldown("cooldown_seconds", cooldown_seconds)
        if not _number(max_probe_seconds) or max_probe_seconds <= 0:
            raise SettingsError(f"max_probe_seconds is a number of seconds above 0, not {max_probe_seconds!r}.")
        if not callable(clock):
            raise SettingsError(f"clock is a function that gives seconds, not {clock!r}.")
        self._threshold = failure_threshold
        self._cooldown = cooldown_seconds
        self._max_probe_seconds = max_probe_seconds
        self._clock = clock
        self._lock = threading.RLock()  # the garbage collector may end a forgotten call while this thread holds it
        self._breaker = Breaker("", self._policy(), clock())
        self._failures = 0
        self._opened_at: float | None = None
        self._last_error: str | None = None

    def __repr__(self) -> str:
        return f"<AgentCircuitBreaker {self.state}, {self.failure_count} of {self.threshold} failures>"

    @property
    def threshold(self) -> int:
        """Failures in a row that open the circuit."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: int) -> None:
        _check_threshold("threshold", value)
        with self._lock:
            self._threshold = value
            self._breaker.set_policy(self._policy(), self._clock())

    @property
    def cooldown(self) -> float:
        """Seconds from the opening until one call may probe."""
        return self._cooldown

    @cooldown.setter
    def cooldown(self, value: float) -> None:
        _check_cooldown("cooldown", value)
        with self._lock:
            self._cooldown = value
            now, breaker = self._clock(), self._breaker
            breaker.set_policy(self._policy(), now)
            if breaker.state == "open":  # its wait began under the old one, and a policy leaves that as it is
                until = breaker.changed_at + self._wait_s()
                breaker.command("force_open", now, actor="cooldown", until=until)

    @property
    def state(self) -> CircuitState:
        """``closed``, ``open`` or ``half_open``, as of the last call: an open circuit's cooldown may be over."""
        return self._breaker.state

    @property
    def failure_count(self) -> int:
        """Failures in a row; failed probes go on counting, a success ends it."""
        return self._failures

    @property
    def opened_at(self) -> float | None:
        """When the circuit opened last, in the clock's seconds; None if it never did."""
        return self._opened_at

    def call(self, tool_fn: Callable[P, R] | None = None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the tool; where it is a coroutine function or returns an awaitable, await the result.

        Of a generator the circuit is asked at the first item, as far as its reader comes.

        Raises:
            CircuitOpenError: the circuit is open; whatever the tool raises goes through.
        """
        if tool_fn is None:
            tool_fn = _named(kwargs)
        if inspect.iscoroutinefunction(tool_fn):
            return cast("R", self.acall(tool_fn, *args, **kwargs))
        permit = self._enter(tool_fn)
        try:
            result = tool_fn(*args, **kwargs)
        except BaseException as error:
            self._failed(permit, error)
            raise
        return cast("R", self._returned(tool_fn, permit, result))

    async def acall(self, tool_fn: Callable[P, Awaitable[R]] | None = None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """:meth:`call` for coroutine functions: the circuit is asked when this is awaited. A plain function will do as well.

        Raises:
            CircuitOpenError: the circuit is open; whatever the tool raises goes through.
        """
        if tool_fn is None:
            tool_fn = _named(kwargs)
        permit = self._enter(tool_fn)
        try:
            result: Any = tool_fn(*args, **kwargs)
            if awaited := inspect.isawaitable(result):
                result = await result
        except BaseException as error:
            self._failed(permit, error)
            raise
        if not awaited:
            return cast("R", self._returned(tool_fn, permit, result))
        self._succeeded(permit)
        return cast("R", result)

    def reset(self) -> None:
        """Close the circuit and forget its failures, e.g. at the start of another session."""
        with self._lock:
            self._breaker.command("reset", self._clock(), actor="reset")
            self._failures = 0

    def forked(self) -> None:
        """In a child of a fork: its own lock; the parent's threads, which make the probes, are not here."""
        self._lock = threading.RLock()
        self._breaker.abandon_probes()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _policy(self) -> BreakerPolicy:
        return BreakerPolicy(
            consecutive_failures=min(self._threshold, MOST_CALLS),
            wait_duration_in_open_state_s=self._wait_s(),
            max_wait_duration_in_half_open_state_s=possible_wait(self._max_probe_seconds),
            honor_retry_after=False,
        )

    def _wait_s(self) -> float:
        return possible_wait(self._cooldown)

    def _returned(self, tool_fn: Callable[..., Any], permit: BreakerPermit, result: Any) -> Any:
        """What the caller of ``call`` gets; the circuit is told now, or when it has ended."""
        if awaits(result):  # a lambda's or a partial's coroutine, a future
            return later(result, _Told(self, permit))
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            self._released(permit)

            def enter() -> _Told:
                return _Told(self, self._enter(tool_fn))

            return read(result, enter) if inspect.isgenerator(result) else aread(result, enter)
        self._succeeded(permit)
        return result

    def _enter(self, tool_fn: Callable[..., Any]) -> BreakerPermit:
        with self._lock:
            answer = self._breaker.try_acquire(self._clock())
            self._note_opening()
        if isinstance(answer, BreakerRejection):
            name = getattr(tool_fn, "__name__", type(tool_fn).__name__)
            rejection = CallRejection(
                tool=name,
                state=answer.state,
                source="local",
                reason=f"{self._failures} failures in a row",
                retry_after_s=answer.retry_after_s,
                last_error=self._last_error,
            )
            raise ToolDisabledError(rejection, self._cooldown)
        return answer

    def _succeeded(self, permit: BreakerPermit) -> None:
        with self._lock:
            now = self._clock()
            self._breaker.advance(now)
            if permit.generation == self._breaker.generation:
                self._failures = 0
            self._breaker.record(now, _SUCCEEDED, permit)
            self._note_opening()

    def _failed(self, permit: BreakerPermit, error: BaseException) -> None:
        told = _told(error) if isinstance(error, Exception) else None
        with self._lock:
            now = self._clock()
            self._breaker.advance(now)
            if told is None:  # cancelled or interrupted: says nothing of the tool
                self._breaker.release(permit, now)
                return
            if permit.generation == self._breaker.generation:
                self._failures += 1
                self._last_error = told
            self._breaker.record(now, _FAILED, permit)
            self._note_opening()

    def _released(self, permit: BreakerPermit) -> None:
        with self._lock:
            self._breaker.release(permit, self._clock())

    def _note_opening(self) -> None:
        if self._breaker.state == "open":
            self._opened_at = self._breaker.changed_at


class _Told:
    """How a call ended that went on after ``call``."""

    __slots__ = ("_circuit", "_permit")

    def __init__(self, circuit: AgentCircuitBreaker, permit: BreakerPermit) -> None:
        self._circuit = circuit
        self._permit = permit

    def succeeded(self, _result: Any, /) -> None:
        """Well."""
        self._circuit._succeeded(self._permit)  # noqa: SLF001 - of this file

    def failed(self, error: BaseException, /) -> None:
        """With ``error``."""
        self._circuit._failed(self._permit, error)  # noqa: SLF001

    def not_made(self) -> None:
        """It never began."""
        self._circuit._released(self._permit)  # noqa: SLF001


def _named(kwargs: dict[str, Any]) -> Any:
    """The tool, given by its name in the pattern; given by position, the name is the tool's own to use.

    Raises:
        TypeError: there is none.
    """
    try:
        return kwargs.pop("tool_fn")
    except KeyError:
        raise TypeError("call() needs the tool's function, tool_fn.") from None


def _check_threshold(name: str, value: Any) -> None:
    if not is_whole(value) or value < 1:
        raise SettingsError(f"{name} is a whole number from 1, not {value!r}.")


def _check_cooldown(name: str, value: Any) -> None:
    if not _number(value) or value < 0:
        raise SettingsError(f"{name} is a number of seconds from 0, not {value!r}.")


def _number(value: object) -> bool:
    return is_number(value) and abs(value) <= sys.float_info.max


def _told(error: Exception) -> str:
    try:
        return redact(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 - a user's __str__ may fail; the tool's own exception must go through
        return type(error).__name__


def read(items: Generator[Any, Any, Any], enter: Callable[[], Report]) -> Generator[Any, Any, Any]:
    """``items``, with everything that passes both ways.

    Args:
        items: The tool's, not begun.
        enter: Asks the circuit, and raises where it is open.
    """
    return (yield from iterated(_ItemsTold(items, enter())))


def aread(items: AsyncGenerator[Any, Any], enter: Callable[[], Report]) -> AsyncGenerator[Any, Any]:
    """:func:`read` for async generators."""

    async def entered() -> _ItemsTold:
        return _ItemsTold(items, enter())

    return aiterated(entered)()


class _ItemsTold:
    __slots__ = ("_items", "_report")

    def __init__(self, items: Any, report: Report) -> None:
        self._items = items
        self._report = report

    def begin(self) -> Any:
        return self._items

    async def next(self, coming: Awaitable[Any]) -> Any:
        try:
            return await coming
        except StopAsyncIteration:
            return END

    def item(self, item: Any) -> None:
        """Nothing is measured."""

    def resumed(self) -> None:
        """As above."""

    def succeeded(self, result: Any) -> None:
        self._report.succeeded(result)

    def failed(self, error: BaseException, thrown: BaseException | None) -> None:
        self._report.failed(GeneratorExit() if error is thrown else error)
