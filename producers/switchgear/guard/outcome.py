"""What a finished call tells: its outcome goes to the process's own breaker and, as an event, to the fleet."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.bounded_log import BoundedLog
from switchgear.breaker import Outcome, Result, outcome_of
from switchgear.classify import IGNORE, Classification, Classifier, classify
from switchgear.classify.checked import checked
from switchgear.emitter.event import Event
from switchgear.guard.local import LocalBreakers, LocalCircuit
from switchgear.guard.permit import Permit
from switchgear.redact import Redactor, considered
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import status_of

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.telling import Teller

log: Final = logging.getLogger("switchgear.guard")

_SUCCESS: Final = Outcome.SUCCESS  # a look-up in an Enum takes longer than one here
_IGNORED: Final = Outcome.IGNORED


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
        self.teller: Teller | None = None
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
                    traceparent=None if self.teller is None else self.teller.traceparent(),
                ),
                urgent=ignored and permit._lease is not None,  # noqa: SLF001 - the next probe waits for it
            )
        if self.teller is not None:
            self.teller.ended(permit, "success", duration_ms, error_class)

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
            outcome = outcome_of(status, found.error_class, circuit.breaker.policy)
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
                    traceparent=None if self.teller is None else self.teller.traceparent(),
                ),
                urgent=permit._lease is not None,  # noqa: SLF001
            )
        if self.teller is not None:
            self.teller.ended(permit, status, duration_ms, found.error_class, kind)

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
