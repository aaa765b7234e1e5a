"""Classes with the names and behaviour of other libraries, on a local client: the agent circuit breaker and Spectra."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, get_args

from switchgear import arguments
from switchgear.arguments import possible_wait
from switchgear.client import Switchgear
from switchgear.guard.options import GuardOptions
from switchgear.guard.rejections import CircuitOpenError, Rejection
from switchgear.guard.tool_function import examine
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, FunctionHooks, Hooks
from switchgear.transport import Servers, Wire
from switchgear_schemas.enums import MOST_CALLS, MOST_PROBES, SHORTEST_WAIT_S, CircuitState, ErrorClass
from switchgear_schemas.policy import BreakerPolicy

_LONGEST_PROBE_S: Final = 600.0
"""After this time a probe counts as lost, and the circuit opens again."""

# -- the agent circuit breaker ----------------------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")

_CIRCUIT: Final = "agent_circuit_breaker"
"""The name of the one circuit of each object's client."""


class ToolDisabledError(CircuitOpenError):
    """The CircuitOpenError that an AgentCircuitBreaker raises. ``message`` is the pattern's, and the text begins with it."""

    @property
    def message(self) -> str:  # type: ignore[override]
        """Return the pattern's message."""
        return self.reason

    @property
    def text(self) -> str:
        """Return the pattern's message, then the tool's state and the time until the next try."""
        text = super().text
        return f"{self.reason}. {text}" if self.tool else text


class AgentCircuitBreaker:
    """One tool's circuit, for this process and the lifetime of this object: make one per tool and session.

    Names, defaults and the message are those of agentic-patterns.com/patterns/agent-circuit-breaker, and every ``Exception``
    counts as a failure. docs/guide/other-breakers.md says where the circuit differs: a success ends a run of failures, and
    exactly one call probes. Thread-safe. ``Switchgear.local()`` adds classification, fallbacks and more.

    Args:
        failure_threshold: Failures in a row that open the circuit.
        cooldown_seconds: Seconds from the opening until one call may probe.
        clock: Returns the time in seconds. ``opened_at`` is one of its values.

    Raises:
        OptionError: An argument is out of range. The message names it.
    """

    def __init__(
        self,
        failure_threshold: int = 3,
        cooldown_seconds: float = 60,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        arguments.whole("failure_threshold", failure_threshold)
        arguments.number("cooldown_seconds", cooldown_seconds)
        arguments.function("clock", clock)
        self.threshold = failure_threshold
        self.cooldown = cooldown_seconds
        self._clock = clock
        self._policy = BreakerPolicy(
            consecutive_failures=min(failure_threshold, MOST_CALLS),
            wait_duration_in_open_state_s=possible_wait(cooldown_seconds),
            max_wait_duration_in_half_open_state_s=_LONGEST_PROBE_S,
            counted_error_classes=frozenset({"tool"}),
            honor_retry_after=False,
        )
        self.reset()

    def __repr__(self) -> str:
        return f"<AgentCircuitBreaker {self.state}, {self.failure_count} of {self.threshold} failures>"

    @property
    def state(self) -> CircuitState:
        """Return ``closed``, ``open`` or ``half_open`` as of the last call. The cooldown of an open circuit may be over."""
        return self._gear.status().local.get(_CIRCUIT, "closed")

    @property
    def failure_count(self) -> int:
        """Return the number of failures in a row, failed probes included."""
        return len(self._record.failures)

    @property
    def opened_at(self) -> float | None:
        """Return the clock's time when the circuit last opened, or None if it never did."""
        return self._record.opened_at

    def call(self, tool_fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the tool and return its result. Await the result of a coroutine function.

        Raises:
            CircuitOpenError: The circuit is open. Exceptions of the tool pass through.
        """
        if examine(tool_fn).kind == "coroutine":
            return cast("R", self.acall(cast("Callable[P, Awaitable[Any]]", tool_fn), *args, **kwargs))
        with self._refusals_of(tool_fn):
            return self._gear.call(_CIRCUIT, tool_fn, *args, **kwargs)

    async def acall(self, tool_fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await the tool and return its result. A plain function works too.

        Raises:
            CircuitOpenError: The circuit is open. Exceptions of the tool pass through.
        """
        with self._refusals_of(tool_fn):
            return await self._gear.acall(_CIRCUIT, tool_fn, *args, **kwargs)

    def reset(self) -> None:
        """Close the circuit and forget its failures, for example at the start of a session."""
        self._record = _FailuresInARow(self._clock)
        self._gear = Switchgear(
            _LocalClock(self._clock),
            local_policies=self._policy,
            classify=_classify,
            defaults=GuardOptions(classify_result=lambda _result: None),
            hooks=[self._record],
        )

    @contextlib.contextmanager
    def _refusals_of(self, tool_fn: Callable[..., Any]) -> Iterator[None]:
        """Raise this circuit's refusals with the name of ``tool_fn`` and the pattern's message."""
        try:
            yield
        except CircuitOpenError as refused:
            if refused.tool != _CIRCUIT:
                raise
            rejection = Rejection(
                tool=getattr(tool_fn, "__name__", type(tool_fn).__name__),
                state=refused.state,
                source="local",
                reason=f"Circuit open — tool disabled for {self.cooldown}s",
                retry_after_s=refused.retry_after_s,
                last_error=refused.last_error,
            )
            raise ToolDisabledError(rejection) from None


class _FailuresInARow(Hooks):
    """What the attributes of an AgentCircuitBreaker show."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.opened_at: float | None = None
        self.failures: list[CallOutcome] = []  # a list and no number: append and clear are atomic

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Count the failures in a row."""
        if outcome.status == "success":
            self.failures.clear()
        elif outcome.error_class == "tool":
            self.failures.append(outcome)

    def on_transition(self, change: CircuitChange) -> None:
        """Note when the circuit opens."""
        if change.state == "open":
            self.opened_at = self._clock()


class _LocalClock:
    """A transport without Kafka, for a client with its own clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def connect(self, *_client: Any, **_options: Any) -> Wire:
        """Return the clock alone."""
        return Wire(clock=self._clock, wall=self._clock)


def _classify(error: BaseException) -> ErrorClass | None:
    return "tool" if isinstance(error, Exception) else None


# -- Spectra ----------------------------------------------------------------------------------------------------------

_COUNTED: Final = frozenset(get_args(ErrorClass)) - {"cancelled", "policy"}
"""Spectra counts every failure of a tool."""
_LONGEST_COOLDOWN_S: Final = timedelta.max.total_seconds()


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of ``tool`` went to ``fallback``, because the circuit of ``tool`` is open."""

    tool: str
    fallback: str


SpectraEvent = CircuitChange | FallbackUsed
"""What an event sink receives. ``CircuitChange`` has ``tool``, ``previous``, ``state`` and ``reason``."""


class EventSink(Protocol):
    """Spectra's ``IEventSink``. A plain function works too."""

    def publish(self, event: SpectraEvent, /) -> object:
        """Handle one event, in the caller's thread. Keep it short. Exceptions are logged and don't affect the call."""


@dataclass(slots=True)
class SpectraOptions:
    """``ToolResilienceOptions`` with Spectra's defaults, and names in Python's style."""

    failure_threshold: int = 5
    """Consecutive failures that open the circuit."""
    cooldown_period: timedelta | float = timedelta(seconds=60)
    """How long the circuit stays open before a probe. A number is seconds."""
    half_open_max_attempts: int = 1
    """The most probes at a time in state half-open."""
    success_threshold_to_close: int = 1
    """Successful probes that close the circuit."""
    fallback_tools: dict[str, str] = field(default_factory=dict)
    """The tool to use while the circuit of another tool is open, by names such as ``mcp:server:tool``."""

    def policy(self) -> BreakerPolicy:
        """Return the options as the policy of a breaker.

        Raises:
            OptionError: An option is out of range. The message names it.
        """
        period = self.cooldown_period
        cooldown_s = period.total_seconds() if isinstance(period, timedelta) else period
        arguments.number("cooldown_period", cooldown_s, least=SHORTEST_WAIT_S, most=_LONGEST_COOLDOWN_S)
        for name in ("failure_threshold", "half_open_max_attempts", "success_threshold_to_close"):
            arguments.whole(name, getattr(self, name))
        return BreakerPolicy(
            consecutive_failures=min(self.failure_threshold, MOST_CALLS),
            wait_duration_in_open_state_s=possible_wait(cooldown_s),
            permitted_number_of_calls_in_half_open_state=min(self.half_open_max_attempts, MOST_PROBES),
            success_threshold_to_close=min(self.success_threshold_to_close, MOST_CALLS),
            max_wait_duration_in_half_open_state_s=_LONGEST_PROBE_S,
            counted_error_classes=_COUNTED,
            honor_retry_after=False,
        )


def from_spectra(
    configure: Callable[[SpectraOptions], object] | SpectraOptions | None = None,
    *,
    event_sink: EventSink | Callable[[SpectraEvent], object] | None = None,
    bootstrap_servers: Servers = None,
    hooks: Iterable[Hooks] = (),
    **client: Any,
) -> Switchgear:
    """Return a client whose circuits behave like Spectra's, with two differences.

    A probe that doesn't return within ten minutes counts as lost. If the circuits of a tool and its fallback are both open, the
    tool is called: if everything is open, the problem is probably in this process.

    Args:
        configure: The options, or a function that sets them, like the one for ``AddToolResilience``.
        event_sink: Receives changes of state and fallbacks.
        bootstrap_servers: The brokers. Without them, the client is a local one.
        hooks: Other hooks.
        client: Other arguments of :class:`Switchgear`. The options set the policies and fallbacks.

    Raises:
        OptionError: An option is out of range, or ``configure`` isn't a plain function. The message names it.
    """
    options = configure if isinstance(configure, SpectraOptions) else SpectraOptions()
    if configure is not None and not isinstance(configure, SpectraOptions):
        arguments.function("configure", configure)
        configure(options)
    return Switchgear(
        bootstrap_servers,
        local_policies=options.policy(),
        fallbacks=options.fallback_tools,
        hooks=hooks if event_sink is None else [*hooks, _hooks_of(event_sink)],
        **client,
    )


def _hooks_of(sink: EventSink | Callable[[SpectraEvent], object]) -> FunctionHooks:
    publish: Any = getattr(sink, "publish", None) or sink
    arguments.function("event_sink", publish)
    return FunctionHooks(
        on_transition=publish, on_fallback=lambda rejection, tool: publish(FallbackUsed(rejection.tool, tool))
    )
