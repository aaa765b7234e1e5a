"""A circuit's record, ready for the decision about a call. Instants are seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from switchgear_schemas.enums import CircuitState, Mode, Scope
from switchgear_schemas.errors import SwitchgearError


class UnreadableCircuitError(SwitchgearError):
    """The bytes are not a circuit record."""


class _Lease(msgspec.Struct, frozen=True):
    lease_id: str
    emitter_id: str
    expires_at: datetime


class _Cause(msgspec.Struct, frozen=True):
    rule: str
    value: float | None = None
    threshold: float | None = None
    sample: int | None = None
    actor: str | None = None
    reason: str | None = None


class _Circuit(msgspec.Struct, frozen=True):
    circuit_id: Annotated[str, msgspec.Meta(min_length=1)]
    tool_name: Annotated[str, msgspec.Meta(min_length=1)]
    state: CircuitState
    version: Annotated[int, msgspec.Meta(ge=1)]
    generation: Annotated[int, msgspec.Meta(ge=0)]
    changed_at: datetime
    scope: Scope = "tool"
    cause: _Cause | None = None
    open_until: datetime | None = None
    attempt: int = 0
    leases: tuple[_Lease, ...] = ()
    permits_left: int = 0
    last_error: str | None = None
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A probe lease of a process."""

    lease_id: str
    emitter_id: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class CircuitView:
    """One circuit as the fleet sees it. ``passes`` is the decision about a plain call."""

    circuit_id: str
    tool_name: str
    scope: Scope
    state: CircuitState
    mode: Mode
    version: int
    generation: int
    changed_at: float
    open_until: float | None
    attempt: int
    leases: tuple[LeaseView, ...]
    reason: str
    last_error: str | None
    fallback: tuple[str, ...]
    passes: bool
    """Permit every call, as far as the fleet decides."""
    overrides: bool
    """Permit every call, whatever the process's own breaker decides: an operator's ``disabled`` or ``metrics_only``."""
    forced: bool
    """Refuse every call, by an operator's command."""
    permits_left: int = 0
    """Probes that processes may still ask for while the circuit is half-open. 0 in records of older workers."""


_decoder: Final = msgspec.json.Decoder(_Circuit)


def decode_view(value: bytes) -> CircuitView:
    """Decode one record of the circuits topic. Unknown fields are skipped.

    Raises:
        UnreadableCircuitError: The bytes are not a circuit record.
    """
    try:
        found = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableCircuitError(f"not a circuit record: {error}") from None
    overrides = found.mode in {"metrics_only", "disabled"} or found.state in {"metrics_only", "disabled"}
    forced = not overrides and "forced_open" in {found.mode, found.state}
    return CircuitView(
        circuit_id=found.circuit_id,
        tool_name=found.tool_name,
        scope=found.scope,
        state=found.state,
        mode=found.mode,
        version=found.version,
        generation=found.generation,
        changed_at=_seconds(found.changed_at),
        open_until=None if found.open_until is None else _seconds(found.open_until),
        attempt=found.attempt,
        leases=tuple(LeaseView(lease.lease_id, lease.emitter_id, _seconds(lease.expires_at)) for lease in found.leases),
        reason=_in_words(found.cause),
        last_error=found.last_error,
        fallback=found.fallback,
        passes=overrides or (found.state == "closed" and not forced),
        overrides=overrides,
        forced=forced,
        permits_left=found.permits_left,
    )


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _in_words(cause: _Cause | None) -> str:
    if cause is None:
        return ""
    if cause.actor:
        return f"{cause.rule} by {cause.actor}" + (f": {cause.reason}" if cause.reason else "")
    if cause.value is None:
        return cause.reason or cause.rule
    words = f"{cause.rule} {cause.value:g}"
    if cause.threshold is not None:
        words += f" reached {cause.threshold:g}"
    return words + (f" over {cause.sample} calls" if cause.sample else "")


UNAVAILABLE: Final = "the fleet's state is unavailable"


class Views(dict[str, CircuitView]):
    """The last record of each circuit, by circuit id."""

    __slots__ = ("look",)
    look: Callable[[], object]
    """Used by :class:`AgingViews`. It is here because an object can change its class only within one layout."""

    def answer(self, kind: type[Views]) -> None:
        """Answer as ``kind`` from now on."""
        if type(self) is not kind:
            self.__class__ = kind

    def known(self, circuit_id: str) -> CircuitView | None:
        """Return the last record of a circuit, whatever calls are answered."""
        return dict.get(self, circuit_id)


class AgingViews(Views):
    """Views that check their age on each call, by ``look``: for a client without a background thread to check it."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the answer after the check."""
        self.look()
        kind: type[Views] = type(self)  # the check may have changed it
        return dict.get(self, key, default) if kind is AgingViews else kind.get(self, key, default)


class SilentViews(Views):
    """Views without circuits: the process's own breakers decide alone."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - the signature of dict.get
        """Return ``default``."""
        return default


class DenyingViews(Views):
    """Views in which every circuit refuses, with the reason :data:`UNAVAILABLE`."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - the signature of dict.get
        """Return a circuit that refuses, also for the id of a user's or session's circuit."""
        return denial(key)


def denial(tool: str) -> CircuitView:
    """Return a circuit of ``tool`` that refuses, because its state is not known."""
    return CircuitView(
        circuit_id=tool,
        tool_name=tool.partition("|user=")[0].partition("|session=")[0],
        scope="tool",
        state="open",
        mode="enforce",
        version=0,
        generation=0,
        changed_at=0.0,
        open_until=None,
        attempt=0,
        leases=(),
        reason=UNAVAILABLE,
        last_error=None,
        fallback=(),
        passes=False,
        overrides=False,
        forced=True,
    )
