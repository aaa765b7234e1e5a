"""MeteredPermit: a permit whose call reported tokens while it ran, or belongs to a session."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.fork_safe import ForkSafe
from switchgear.guard.permit import Permit, check_failure, check_metadata
from switchgear.usage import Usage, amount, usage_from, usage_of, whole
from switchgear_schemas.words import ErrorClass

if TYPE_CHECKING:
    from switchgear.classify import Classification
    from switchgear.guard.gate import Gate
    from switchgear.session import Session

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
