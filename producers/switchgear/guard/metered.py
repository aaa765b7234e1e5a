"""MeteredPermit: a permit whose call reported tokens while it ran, or belongs to a session."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.fork_safe import ForkSafe
from switchgear.guard.permit import Permit
from switchgear.usage import Usage, usage_of
from switchgear_schemas.words import ErrorClass

if TYPE_CHECKING:
    from switchgear.classify import Classification
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
        if self._session is not None:
            self._session.ended(told, failed=False)

    def success(
        self,
        *,
        output_size: int = 0,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_creation_tokens: int = 0,
        cost_usd: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See :meth:`Permit.success`; what was reported meanwhile is added."""
        gate, self._gate = self._gate, None
        if gate is None:
            return
        if not (self._usage or input_tokens or output_tokens or cache_creation_tokens or cost_usd):
            gate.succeeded(self, output_size, 0, 0, 0, 0.0, metadata)
            return
        told = Usage(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        whole = sum(self._usage, told)
        gate.succeeded(
            self,
            output_size,
            whole.input_tokens,
            whole.output_tokens,
            whole.cache_creation_tokens,
            whole.cost_usd,
            metadata,
        )
        if self._session is not None:
            self._session.ended(told, failed=False)

    def failure(
        self,
        error: BaseException | str,
        *,
        classification: Classification | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_creation_tokens: int = 0,
        cost_usd: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See :meth:`Permit.failure`; what was reported meanwhile is added."""
        gate, self._gate = self._gate, None
        if gate is None:
            return
        found = classification or gate.classification(error)
        told = Usage(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        whole = sum(self._usage, told)
        gate.failed(
            self,
            error,
            whole.input_tokens,
            whole.output_tokens,
            whole.cache_creation_tokens,
            whole.cost_usd,
            metadata,
            found,
        )
        if self._session is not None:
            self._session.ended(told, failed=found.error_class not in NO_FAILURE)

    def release(self) -> None:
        """See :meth:`Permit.release`."""
        gate, self._gate = self._gate, None
        if gate is None:
            return
        gate.released(self)
        if self._session is not None:
            self._session.given_back()


class _Conversions(ForkSafe):
    """One at a time: a permit may be told of tokens by several threads of its call."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forked(self) -> None:
        """In a child of a fork: its own lock."""
        self.lock = threading.Lock()


_conversions: Final = _Conversions()


def in_session(permit: Permit, session: Session | None) -> Permit:
    """``permit``, which nobody else has yet, as one of ``session``."""
    permit._usage = []  # noqa: SLF001 - the permit is ours
    permit._session = session  # noqa: SLF001
    permit.__class__ = MeteredPermit
    return permit


def metered(permit: Permit) -> Permit:
    """``permit`` itself, from here on metered."""
    with _conversions.lock:
        return permit if isinstance(permit, MeteredPermit) else in_session(permit, None)
