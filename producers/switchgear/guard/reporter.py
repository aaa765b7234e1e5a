"""What a finished call tells: its outcome goes to the process's own breaker and, as an event, to the fleet."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.breaker import Result, ResultKind, result_kind
from switchgear.classify import IGNORE, Classification, Classifier, classify
from switchgear.classify.classification import checked
from switchgear.emitter.event import Event
from switchgear.follower.changes import FleetChanges
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.permits import Permit
from switchgear.redaction.redact import Redactor, considered
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.telemetry.hooks import CallOutcome, CircuitChange
from switchgear_schemas.enums import CircuitState, ErrorClass, Status, status_of
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.breaker import Transition
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower
    from switchgear.guard.decision import Gate
    from switchgear.guard.permits import Permit
    from switchgear.telemetry.dispatch import HookList


log: Final = logging.getLogger("switchgear.guard")

_SUCCESS: Final = ResultKind.SUCCESS  # a look-up in an Enum takes longer than one here
_IGNORED: Final = ResultKind.IGNORED


class OutcomeRecorder(ABC):
    """The half of the gate that a permit reports to."""

    def __init__(
        self,
        local: LocalBreakers,
        emitter: Emitter | None,
        classifier: Classifier | None,
        clock: Callable[[], float],
    ) -> None:
        self.local = local
        self.dispatcher: HookDispatcher | None = None
        """Tells the hooks; None without any."""
        self.redact_with: Redactor | None = None
        """A user's rule for error messages, applied before they are kept, shown or sent."""
        self._emitter = emitter
        self._classifier = classifier
        self._clock = clock
        self._complaints = BoundedLog(log, clock=clock)

    def succeeded(
        self,
        permit: Permit,
        output_size: int,
        input_tokens: int,
        output_tokens: int,
        cache_creation_tokens: int,
        cost_usd: float,
        metadata: Mapping[str, Any] | None,
        duration_ms: float | None = None,
        *,
        ignored: bool = False,
    ) -> None:
        """The call of ``permit`` ended well; ``ignored``: that says nothing of the tool. ``duration_ms`` is a caller's own."""
        now = self._clock()
        if duration_ms is None:
            duration_ms = (now - permit._started) * 1000  # noqa: SLF001 - the permit is ours
        circuit = permit._circuit  # noqa: SLF001
        if circuit is not None:
            outcome = _IGNORED if ignored else _SUCCESS
            result = Result(outcome, duration_ms, input_tokens + output_tokens + cache_creation_tokens)
            circuit.record(now, result, permit._inner)  # noqa: SLF001
        error_class = IGNORE.error_class if ignored else None
        emitter = self._emitter
        if emitter is not None:
            user_id, session_id, request_id = permit._caller  # noqa: SLF001
            emitter.emit(
                Event(
                    permit.tool,
                    "success",
                    duration_ms,
                    permit.generation,
                    permit.lease_id,
                    user_id=user_id,
                    session_id=session_id,
                    request_id=request_id,
                    error_class=error_class,
                    parameters_hash=permit.parameters_hash,
                    output_size=output_size,
                    input_tokens=input_tokens,
                    output_tokens=output_tokens,
                    cache_creation_tokens=cache_creation_tokens,
                    cost_usd=cost_usd,
                    metadata=None if metadata is None else dict(metadata),
                    traceparent=None if self.dispatcher is None else self.dispatcher.traceparent(),
                ),
                urgent=ignored and permit._lease is not None,  # noqa: SLF001 - the next probe waits for it
            )
        if self.dispatcher is not None:
            self.dispatcher.ended(permit, "success", duration_ms, error_class)

    def failed(
        self,
        permit: Permit,
        error: BaseException | str,
        input_tokens: int,
        output_tokens: int,
        cache_creation_tokens: int,
        cost_usd: float,
        metadata: Mapping[str, Any] | None,
        classification: Classification | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """The call of ``permit`` ended with an exception, or with a message of the tool's own; see :meth:`succeeded`."""
        now = self._clock()
        if duration_ms is None:
            duration_ms = (now - permit._started) * 1000  # noqa: SLF001 - the permit is ours
        try:
            found = classification or self.classification(error)
            message = _message(error) if self.redact_with is None else self.redact_with(_message(error))
        except BaseException:  # Ctrl-C amid a rule of the user's: the call is over, and a probe's place free
            self.released(permit)
            raise
        status = status_of(found.error_class)
        kind = None if isinstance(error, str) else type(error).__name__
        circuit, inner = permit._circuit, permit._inner  # noqa: SLF001
        if circuit is not None:
            if circuit.retired:
                circuit, inner = self._successor(permit), None
            tokens = input_tokens + output_tokens + cache_creation_tokens
            outcome = result_kind(status, found.error_class, circuit.breaker.policy)
            result = Result(outcome, duration_ms, tokens, retry_after_s=found.retry_after_s)
            circuit.record(now, result, inner, f"{kind}: {message}" if kind and message else kind or message)
        emitter = self._emitter
        if emitter is not None:
            user_id, session_id, request_id = permit._caller  # noqa: SLF001
            emitter.emit(
                Event(
                    permit.tool,
                    status,
                    duration_ms,
                    permit.generation,
                    permit.lease_id,
                    user_id=user_id,
                    session_id=session_id,
                    request_id=request_id,
                    error_type=kind,
                    error_message=message,
                    error_class=found.error_class,
                    retry_after_s=found.retry_after_s,
                    parameters_hash=permit.parameters_hash,
                    input_tokens=input_tokens,
                    output_tokens=output_tokens,
                    cache_creation_tokens=cache_creation_tokens,
                    cost_usd=cost_usd,
                    metadata=None if metadata is None else dict(metadata),
                    traceparent=None if self.dispatcher is None else self.dispatcher.traceparent(),
                ),
                urgent=permit._lease is not None,  # noqa: SLF001
            )
        if self.dispatcher is not None:
            self.dispatcher.ended(permit, status, duration_ms, found.error_class, kind)

    @abstractmethod
    def released(self, permit: Permit) -> None:
        """The call of ``permit`` was never made, or nobody can say how it ended; the gate knows what it held."""

    def classification(self, error: BaseException | str) -> Classification:
        """What kind of failure it is: by the client's classifier, else by default; a tool's own message is of class ``tool``."""
        return Classification("tool") if isinstance(error, str) else self._classify(error)

    def _successor(self, permit: Permit) -> LocalCircuit:
        user_id, session_id, _ = permit._caller  # noqa: SLF001 - the permit is ours
        return self.local.get(permit.tool, user_id, session_id)

    def _classify(self, error: BaseException) -> Classification:
        if self._classifier is None:
            return classify(error)
        try:
            found = checked(self._classifier(error))
        except Exception as broken:  # noqa: BLE001 - a user's rule may fail in any way; the call must not
            self._complaints.warning("the client's classify failed; the default decides", broken)
            found = None
        return classify(error) if found is None else found


def _message(error: BaseException | str) -> str:
    """As much of it as may be sent: what waits for Kafka, or is kept as a circuit's last error, must not be of any length."""
    if isinstance(error, str):
        return considered(error)
    try:
        # An error of ours has one text for the model, and one for operators: this is theirs.
        return considered(SwitchgearError.__str__(error) if isinstance(error, SwitchgearError) else str(error))
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return f"(its message can't be read: {type(broken).__name__})"


_MOST_WAITING: Final = 10_000
"""Beyond it the oldest change is forgotten; a call tells what it made at once, so nothing waits for long."""


class HookDispatcher:
    """Thread-safe."""

    def __init__(self, hooks: HookList) -> None:
        self._hooks = hooks
        self._outcomes = "on_outcome" in hooks.wants
        self._traces = "traceparent" in hooks.wants
        self._waiting: deque[Transition] = deque(maxlen=_MOST_WAITING)

    def moved(self, transition: Transition) -> None:
        """A circuit of ours changed; its lock is held."""
        self._waiting.append(transition)

    def tell(self) -> None:
        """Tell of the changes that wait; with no lock held."""
        while self._waiting:
            try:
                transition = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            self._hooks.on_transition(_change(transition))

    def ended(
        self,
        permit: Permit,
        status: Status,
        duration_ms: float,
        error_class: ErrorClass | None = None,
        error_type: str | None = None,
    ) -> None:
        """The call of ``permit`` ended: tell of it, and of what it changed."""
        if self._outcomes:
            self._hooks.on_outcome(
                CallOutcome(
                    permit.tool,
                    status,
                    duration_ms,
                    error_class,
                    error_type,
                    permit.probe,
                    permit.generation,
                    getattr(permit, "served_by", "call"),
                    _state_behind(permit),
                )
            )
        self.tell()

    def traceparent(self) -> str | None:
        """The caller's trace context, for the event."""
        return self._hooks.traceparent() if self._traces else None


def attach_hooks(hooks: HookList, gate: Gate, follower: CircuitFollower | None, wall: Callable[[], float]) -> None:
    """Have ``hooks`` told of everything that happens at ``gate``, and to the fleet's circuits."""
    dispatcher = gate.dispatcher = HookDispatcher(hooks)
    if "on_transition" not in hooks.wants:
        return
    gate.local.on_move = dispatcher.moved
    if follower is not None:
        follower.listeners.append(FleetChanges(hooks.on_transition, follower, wall).on_view)


def _state_behind(permit: Permit) -> CircuitState:
    """Of the circuit, when it gave the permit: by now the call may have changed it."""
    if permit.probe:
        return "half_open"
    circuit = permit._circuit  # noqa: SLF001 - the permit is ours
    if circuit is None:  # nobody was asked; or the fleet's circuit goes before ours and lets all through
        return "open" if permit.generation is None else "disabled"
    state = circuit.breaker.state
    return state if state in {"disabled", "metrics_only"} else "closed"


def _change(transition: Transition) -> CircuitChange:
    cause = transition.cause
    circuit_id = transition.circuit_id
    until = transition.open_until if transition.state == "open" else None
    return CircuitChange(
        circuit_id=circuit_id,
        tool=circuit_id.partition("|user=")[0].partition("|session=")[0],
        source="local",
        previous=transition.previous,
        state=transition.state,
        generation=transition.generation,
        reason=cause.reason or cause.rule,
        retry_after_s=None if until is None else max(0.0, until - transition.at),
    )
