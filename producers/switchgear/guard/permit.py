"""Permit: the answer "yes", and the caller's one duty: to say how the call ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from switchgear.breaker import Permit as BreakerPermit
    from switchgear.classify import Classification
    from switchgear.guard.gate import Gate
    from switchgear.guard.local import LocalCircuit
    from switchgear.session import Session
    from switchgear.usage import Usage


Caller = tuple[str, str | None, str | None]
"""User, session and request of a call."""
NOBODY: Final[Caller] = ("", None, None)


class Permit:
    """Report once: :meth:`success`, :meth:`failure` or :meth:`release`. The first report counts, later ones do nothing.

    ``generation`` and ``lease_id`` are those of the fleet's circuit; with a ``lease_id`` the call is a probe.
    """

    _usage: list[Usage]
    """Reported so far; of a metered permit alone, as its session is."""
    _session: Session | None

    __slots__ = (
        "_caller",
        "_circuit",
        "_gate",
        "_inner",
        "_lease",
        "_session",
        "_started",
        "_usage",
        "generation",
        "parameters_hash",
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
        output_size: int = 0,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_creation_tokens: int = 0,
        cost_usd: float = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """The tool answered. Sizes in bytes or characters, tokens of the model, cost in US dollars."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.succeeded(self, output_size, input_tokens, output_tokens, cache_creation_tokens, cost_usd, metadata)

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
        """The call failed with an exception, or with a message of the tool's own (class ``tool``). Classified, then counted or not.

        ``classification`` is the caller's own verdict, in place of the client's.
        """
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.failed(
                self, error, input_tokens, output_tokens, cache_creation_tokens, cost_usd, metadata, classification
            )

    def tokens(self, usage: Usage | int) -> None:
        """Report tokens (and cost) while the call runs, as often as there is something to report; a plain number is of output.

        Raises:
            SwitchgearError: it is no usage, or less than nothing.
        """
        from switchgear.guard.metered import metered  # noqa: PLC0415 - it derives from this class

        metered(self).tokens(usage)

    def paused(self, seconds: float) -> None:
        """So long the call waited for its caller, not for the tool: it is no part of its duration."""
        self._started += seconds

    def release(self) -> None:
        """The call was never made: nothing is counted or recorded, and a probe is free for the next call."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.released(self)
