"""Permit: the answer "yes", and the caller's one duty: to say how the call ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from switchgear.classify.classification import IGNORE, checked
from switchgear.runtime.fork import ForkSafe
from switchgear.sessions.usage import ReportError, Usage, amount, usage_from, usage_of, whole
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.classify import Classification
    from switchgear.guard.decision import Gate
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.sessions.session import Session
    from switchgear.sessions.usage import Usage
    from switchgear_schemas.enums import ErrorClass, ServedBy


Caller = tuple[str, str | None, str | None]
"""User, session and request of a call."""
NOBODY: Final[Caller] = ("", None, None)


def caller_of(user_id: object, session_id: object, request_id: object) -> Caller:
    """The ids as text, as the fleet reads them: one that is a number or a UUID is written out, None is none."""
    if isinstance(user_id, str) and isinstance(session_id, str | None) and isinstance(request_id, str | None):
        return user_id, session_id, request_id
    return _written_out(user_id) or "", _written_out(session_id), _written_out(request_id)


def _written_out(identifier: object) -> str | None:
    return None if identifier is None else str(identifier)


class Permit:
    """Report once: :meth:`success`, :meth:`failure`, :meth:`ignore` or :meth:`release`. DeferredResult reports do nothing.

    The arguments of a report are checked before it counts: after a ReportError (a SwitchgearError) the permit is as it was.
    ``duration_ms`` is the call's duration where you measured it yourself, in milliseconds; without it, it is the time
    since the permit was given.
    ``generation`` and ``lease_id`` are those of the fleet's circuit; with a ``lease_id`` the call is a probe.
    """

    _usage: list[Usage]
    """Reported so far; of a metered permit alone, as its sessions are."""
    _sessions: tuple[Session, ...]
    served_by: ServedBy
    """Of a call of a fallback tool alone: ``fallback``."""

    __slots__ = (
        "_caller",
        "_circuit",
        "_gate",
        "_inner",
        "_lease",
        "_sessions",
        "_started",
        "_usage",
        "generation",
        "parameters_hash",
        "served_by",
        "tool",
    )

    def __init__(
        self,
        gate: Gate,
        tool: str,
        circuit: LocalCircuit | None,
        inner: BreakerPermit | None,
        started: float,
        generation: int | None,
        caller: Caller,
        lease: tuple[str, str] | None = None,
    ) -> None:
        self._gate: Gate | None = gate
        self.tool = tool
        self._circuit = circuit
        self._inner = inner
        self._started = started
        self.generation = generation
        self._caller = caller
        self._lease = lease
        self.parameters_hash: str | None = None

    if TYPE_CHECKING:  # every object is true as it is; this says it to type checkers, which then know the answer's type

        def __bool__(self) -> Literal[True]: ...

    @property
    def lease_id(self) -> str | None:
        """The fleet's probe lease that this call goes under."""
        return None if self._lease is None else self._lease[1]

    @property
    def probe(self) -> bool:
        """The call tests whether the tool has recovered, for this process or for the fleet."""
        return self._lease is not None or (self._inner is not None and self._inner.probe)

    def success(
        self,
        *,
        duration_ms: float | None = None,
        output_size: int | None = 0,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """The tool answered. Sizes in bytes or characters, tokens of the model, cost in US dollars; None is nothing.

        Raises:
            SwitchgearError: naming the argument that is impossible.
        """
        told = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        size = whole("output_size", output_size) if output_size else 0
        if metadata is not None:
            check_metadata(metadata)
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms)
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.succeeded(
                self,
                size,
                told.input_tokens,
                told.output_tokens,
                told.cache_creation_tokens,
                told.cost_usd,
                metadata,
                duration_ms,
            )

    def failure(
        self,
        error: BaseException | str,
        *,
        duration_ms: float | None = None,
        classification: Classification | ErrorClass | None = None,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """The call failed with an exception, or with a message of the tool's own (class ``tool``). Classified, then counted or not.

        ``classification`` is the caller's own verdict, in place of the client's.

        Raises:
            SwitchgearError: naming the argument that is impossible.
        """
        told = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        found = check_failure(error, classification, metadata)
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms)
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.failed(
                self,
                error,
                told.input_tokens,
                told.output_tokens,
                told.cache_creation_tokens,
                told.cost_usd,
                metadata,
                found,
                duration_ms,
            )

    def ignore(
        self,
        error: BaseException | str | None = None,
        *,
        duration_ms: float | None = None,
        output_size: int | None = 0,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """The call was made, and says nothing of the tool's health: it counts neither as a success nor as a failure.

        The event is sent all the same, of class ``policy``: with ``error`` as an error, without one as a success. A probe
        is free for the next call. :meth:`release` is for a call that was never made: it leaves no event.

        Raises:
            SwitchgearError: naming the argument that is impossible.
        """
        told = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        size = whole("output_size", output_size)
        if error is not None:
            check_failure(error, None, metadata)
        elif metadata is not None:
            check_metadata(metadata)
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms)
        gate, self._gate = self._gate, None
        if gate is not None:
            self._ignored(gate, error, size, told, metadata, duration_ms)

    def _ignored(
        self,
        gate: Gate,
        error: BaseException | str | None,
        size: int,
        usage: Usage,
        metadata: Mapping[str, Any] | None,
        duration_ms: float | None,
    ) -> None:
        tokens = usage.input_tokens, usage.output_tokens, usage.cache_creation_tokens
        if error is None:
            gate.succeeded(self, size, *tokens, usage.cost_usd, metadata, duration_ms, ignored=True)
        else:
            gate.failed(self, error, *tokens, usage.cost_usd, metadata, IGNORE, duration_ms)

    def tokens(self, usage: Usage | int) -> None:
        """Report tokens (and cost) while the call runs, as often as there is something to report; a plain number is of output.

        Raises:
            SwitchgearError: it is no usage, or less than nothing.
        """
        from switchgear.guard.permits import metered  # noqa: PLC0415 - it derives from this class

        metered(self).tokens(usage)

    def paused(self, seconds: float) -> None:
        """So long the call waited for its caller, not for the tool: it is no part of its duration."""
        self._started += seconds

    def release(self) -> None:
        """The call was never made: nothing is counted or sent, and a probe is free for the next call."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.released(self)


def check_failure(
    error: object, classification: Classification | ErrorClass | None, metadata: object
) -> Classification | None:
    """What a failure is told, before it counts: the caller's verdict, if there is one.

    Raises:
        ReportError: naming the argument that is impossible.
    """
    if not isinstance(error, (BaseException, str)):
        raise ReportError(
            f"A failure is an exception or a message, not {error!r:.100}.",
            hint="Give the exception itself." if isinstance(error, type) else "",
        )
    if metadata is not None:
        check_metadata(metadata)
    try:
        return checked(classification)
    except SwitchgearError as wrong:
        raise ReportError(f"classification: {wrong.message}", hint=wrong.hint) from None


def check_metadata(metadata: object) -> None:
    """What goes with the event.

    Raises:
        ReportError: it is no mapping.
    """
    if not isinstance(metadata, Mapping):
        raise ReportError(f"metadata is a mapping, not {metadata!r:.100}.")


NO_FAILURE: Final[frozenset[ErrorClass | None]] = frozenset({"cancelled", "policy"})
"""Classes that a session's ``max_failures`` leaves out: nobody's tool failed."""


class MeteredPermit(Permit):
    """Made of a plain permit in place, by its class: plain ones, which are nearly all, pay nothing for it. Thread-safe."""

    __slots__ = ()

    def tokens(self, usage: Usage | int) -> None:
        """See :meth:`Permit.tokens`; a session's budget knows at once."""
        told = usage_of(usage)
        if self._gate is None:
            return
        self._usage.append(told)
        for session in self._sessions:
            session.ended(told, failed=False)

    def success(
        self,
        *,
        duration_ms: float | None = None,
        output_size: int | None = 0,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See :meth:`Permit.success`; what was reported meanwhile is added."""
        told = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        size = whole("output_size", output_size)
        if metadata is not None:
            check_metadata(metadata)
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms)
        gate, self._gate = self._gate, None
        if gate is None:
            return
        all_told = sum(self._usage, told)
        gate.succeeded(
            self,
            size,
            all_told.input_tokens,
            all_told.output_tokens,
            all_told.cache_creation_tokens,
            all_told.cost_usd,
            metadata,
            duration_ms,
        )
        for session in self._sessions:
            session.ended(told, failed=False)

    def failure(
        self,
        error: BaseException | str,
        *,
        duration_ms: float | None = None,
        classification: Classification | ErrorClass | None = None,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See :meth:`Permit.failure`; what was reported meanwhile is added."""
        told = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        verdict = check_failure(error, classification, metadata)
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms)
        gate, self._gate = self._gate, None
        if gate is None:
            return
        found = verdict or gate.classification(error)
        all_told = sum(self._usage, told)
        gate.failed(
            self,
            error,
            all_told.input_tokens,
            all_told.output_tokens,
            all_told.cache_creation_tokens,
            all_told.cost_usd,
            metadata,
            found,
            duration_ms,
        )
        for session in self._sessions:
            session.ended(told, failed=found.error_class not in NO_FAILURE)

    def _ignored(
        self,
        gate: Gate,
        error: BaseException | str | None,
        size: int,
        usage: Usage,
        metadata: Mapping[str, Any] | None,
        duration_ms: float | None,
    ) -> None:
        super()._ignored(gate, error, size, sum(self._usage, usage), metadata, duration_ms)
        for session in self._sessions:
            session.ended(usage, failed=False)

    def release(self) -> None:
        """See :meth:`Permit.release`."""
        gate, self._gate = self._gate, None
        if gate is None:
            return
        gate.released(self)
        for session in self._sessions:
            session.not_made()


class _Conversions(ForkSafe):
    """One at a time: a permit may be told of tokens by several threads of its call."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()  # a signal handler may call a tool amid any of these

    def forked(self) -> None:
        """In a child of a fork: its own lock."""
        self.lock = threading.RLock()


_conversions: Final = _Conversions()


def in_session(permit: Permit, session: Session | None) -> Permit:
    """``permit``, which nobody else has yet, as one of ``session`` and of those that it is nested in here."""
    permit._usage = []  # noqa: SLF001 - the permit is ours
    permit._sessions = () if session is None else session.nested()  # noqa: SLF001
    permit.__class__ = MeteredPermit
    return permit


def metered(permit: Permit) -> Permit:
    """``permit`` itself, from here on metered."""
    with _conversions.lock:
        return permit if isinstance(permit, MeteredPermit) else in_session(permit, None)
