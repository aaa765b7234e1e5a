"""A circuit's record, ready for the decision about a call. Instants are seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from switchgear_schemas.cause import Cause
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.enums import CircuitScope, CircuitState, Mode, PaceMode
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.explain import in_brief


class UnreadableCircuitError(SwitchgearError):
    """The bytes are not a circuit record."""


class Instant(float):
    """Seconds since 1970. In JSON it is a timestamp of RFC 3339."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A probe lease of a process."""

    lease_id: str
    emitter_id: str
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class LimitView:
    """A rate limit of a tool: see :class:`switchgear_schemas.pacing.RateLimit`."""

    rate: Annotated[float, msgspec.Meta(gt=0)]
    granted: Annotated[float, msgspec.Meta(gt=0)]
    period_s: Annotated[float, msgspec.Meta(gt=0)]
    asked: Annotated[int, msgspec.Meta(ge=0)]
    until: Instant
    credential: str = ""
    limited: int = 0
    refused: int = 0
    waited: int = 0
    waited_s: float = 0.0
    paused_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class PaceView:
    """How the calls of a tool are paced: see :class:`switchgear_schemas.pacing.Pace`."""

    mode: PaceMode
    wait_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    limits: tuple[LimitView, ...] = ()


@dataclass(frozen=True, slots=True)
class CircuitView:
    """One circuit as the fleet sees it. The last nine fields follow from the others. ``passes`` is the decision about a plain call."""

    circuit_id: Annotated[str, msgspec.Meta(min_length=1)]
    tool_name: Annotated[str, msgspec.Meta(min_length=1)]
    state: CircuitState
    version: Annotated[int, msgspec.Meta(ge=1)]
    generation: Annotated[int, msgspec.Meta(ge=0)]
    changed_at: Instant
    scope: CircuitScope = "tool"
    cause: Cause | None = None
    open_until: Instant | None = None
    attempt: int = 0
    leases: tuple[LeaseView, ...] = ()
    permits_left: int = 0
    """Probes that processes may still ask for while the circuit is half-open. 0 in records of older workers."""
    last_error: str | None = None
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    family: str | None = None
    """Family of the tool. Null in records of older workers, and without one."""
    admitted_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """Share of the calls that a closed circuit admits. 1 in records of older workers."""
    target: str | None = None
    """What tells the targets of the tool apart, such as ``url.host``. Null in records of older workers, and without one."""
    overdue_after_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Calls that run longer are overdue. Null in records of older workers, and if the fleet knows no limit."""
    last_error_class: str | None = None
    """Class of the last failure that counted. Null in records of older workers. A newer worker may know more classes."""
    stands_until: Instant | None = None
    """When an operator's command ends by itself."""
    admitted_rate: float | None = None
    """Calls a second that the tool takes. Null in records of older workers, and if no limit is known."""
    active_processes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Processes that called the tool within the last minute. Null where :attr:`pace` is."""
    pace: PaceView | None = None
    """The tool's limits. Null in records of older workers, and if none is known."""
    reason: str = field(init=False, default="")
    """The cause in words."""
    passes: bool = field(init=False, default=False)
    """Permit every call, as far as the fleet decides."""
    recovers: bool = field(init=False, default=False)
    """Permit the admitted share of the calls."""
    overrides: bool = field(init=False, default=False)
    """Permit every call, whatever the process's own breaker decides: an operator's ``disabled`` or ``metrics_only``."""
    forced: bool = field(init=False, default=False)
    """Refuse every call, by an operator's command."""
    keeps_pace: bool = field(init=False, default=False)
    """Processes keep the tool's limits."""
    pace_wait_s: float = field(init=False, default=0.0)
    """Longest wait of a call for its turn."""
    limit: LimitView | None = field(init=False, default=None)
    """That of the calls without a limit of their credential. If there is none, the one of the credential that makes most calls."""
    plain: bool = field(init=False, default=False)
    """Permit every call that the process's own breaker permits, whatever it is about, and count only how it ends."""

    def limit_of(self, credential: str) -> LimitView | None:
        """Return the limit of the calls with a credential."""
        if self.pace is None:
            return None
        found = {each.credential: each for each in self.pace.limits}
        return found.get(credential) or found.get("")

    def __post_init__(self) -> None:
        overrides = self.mode in _NOT_ENFORCED or self.state in _NOT_ENFORCED
        forced = not overrides and "forced_open" in {self.mode, self.state}
        object.__setattr__(self, "reason", in_brief(self.cause))
        closed = self.state == "closed" and not forced
        object.__setattr__(self, "passes", overrides or (closed and self.admitted_share == 1))
        object.__setattr__(self, "recovers", closed and not self.passes)
        object.__setattr__(self, "overrides", overrides)
        object.__setattr__(self, "forced", forced)
        pace = self.pace
        keeps_pace = pace is not None and pace.mode == "enforce" and not overrides
        object.__setattr__(self, "keeps_pace", keeps_pace)
        if pace is not None:
            object.__setattr__(self, "pace_wait_s", pace.wait_s)
            object.__setattr__(self, "limit", max(pace.limits, key=_by_demand, default=None))
        learned = self.overdue_after_ms is None and self.target is None and not keeps_pace
        object.__setattr__(self, "plain", self.passes and not overrides and learned)


def _by_demand(limit: LimitView) -> tuple[bool, int]:
    return not limit.credential, limit.asked


_NOT_ENFORCED: Final = frozenset({"metrics_only", "disabled"})


def read_instant(_: type, text: str) -> Instant:
    """Return an instant from a timestamp of RFC 3339: the hook of a decoder of circuit records."""
    moment = datetime.fromisoformat(text)
    return Instant((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())


_decoder: Final = msgspec.json.Decoder(CircuitView, dec_hook=read_instant)


def decode_view(value: bytes) -> CircuitView:
    """Decode one record of the circuits topic. Unknown fields are skipped.

    Raises:
        UnreadableCircuitError: The bytes are not a circuit record.
    """
    try:
        return _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableCircuitError(f"not a circuit record: {error}") from None


UNAVAILABLE: Final = "the fleet's state is unavailable"


class Views(dict[str, CircuitView]):
    """The last record of each circuit, by circuit id."""

    __slots__ = ()

    def answer(self, kind: type[Views]) -> None:
        """Answer as ``kind`` from now on."""
        if type(self) is not kind:
            self.__class__ = kind

    def known(self, circuit_id: str) -> CircuitView | None:
        """Return the last record of a circuit, whatever calls are answered."""
        return dict.get(self, circuit_id)


def dated(expired: Callable[[], bool], look: Callable[[], object]) -> type[Views]:
    """Return a class of views that calls ``look`` before it answers with a state that has ``expired``. ``look`` may replace the class."""

    class DatedViews(Views):
        __slots__ = ()

        def get(self, key: str, default: Any = None) -> Any:
            if expired():
                look()
                if type(self) is not DatedViews:
                    return self.get(key, default)
            return dict.get(self, key, default)

    return DatedViews


class SilentViews(Views):
    """Views without circuits: the process's own breakers decide alone."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - the signature of dict.get
        """Return ``default``."""
        return default


class DenyingViews(Views):
    """Views in which every circuit refuses, with the reason :data:`UNAVAILABLE`."""

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:
        """Return a circuit that refuses, also for the id of a user's or session's circuit. A family's doesn't: its tools' do."""
        return default if read_circuit_id(key).scope == "family" else denial(key)


def denial(circuit_id: str) -> CircuitView:
    """Return a circuit with this id that refuses, because its state is not known."""
    return CircuitView(
        circuit_id=circuit_id,
        tool_name=read_circuit_id(circuit_id).name,
        state="open",
        version=0,
        generation=0,
        changed_at=Instant(0),
        cause=Cause("state_unavailable", reason=UNAVAILABLE),
        mode="forced_open",
    )
