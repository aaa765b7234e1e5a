"""The snapshot of a circuit: a few hundred bytes of msgpack, in numbered formats.

The tests hold golden files of each format. The types below are the check of a snapshot: a decoded one is possible, field by field.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta

from switchgear.breaker.evidence import MOST_DENIED, Evidence
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.ramp import Ramp
from switchgear.breaker.states import STATES
from switchgear.breaker.values import Count, Instant
from switchgear.breaker.weak import Weak
from switchgear.breaker.windows import FAILED, SLOW
from switchgear_schemas.cause import Cause
from switchgear_schemas.enums import Mode
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy


FORMAT: Final = 1
"""The format that is written. A reader knows this one and every smaller one."""

_State = Annotated[int, Meta(ge=0, lt=len(STATES))]
_Measure = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
_SavedCause = tuple[str, _Measure | None, _Measure | None, Count | None, Count | None, str | None, str | None]
_CauseDetails = tuple[Count | None, _Measure | None, _Measure | None, _Measure | None, _Measure | None]


class SnapshotError(SwitchgearError):
    """The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in."""


class SavedEvidence(msgspec.Struct, array_like=True):
    """The evidence in the shape in which it was counted."""

    window_type: Literal["time", "count"]
    size: Annotated[float, Meta(gt=0, le=86_400)]
    panes: Annotated[int, Meta(ge=0, le=120)]
    stamp: Count
    ignored: Count
    window: list[tuple[Count, ...]]
    slow_ms: Annotated[float, Meta(gt=0)] | None
    up: Count
    down: Count
    cusum: Count
    streak: Count
    reporters: Annotated[int, Meta(ge=1, le=64)]
    failers: list[tuple[str, Count]]
    callers: list[tuple[str, Count]]
    cusum_calls: Count = 0
    cusum_failed: Count = 0
    tools: Annotated[int, Meta(ge=1, le=64)] = 1
    failing_tools: list[tuple[str, Count]] = []
    called: list[str] = []
    counted_at: Instant | None = None
    """None: there is neither a run nor a sum, or the release that wrote this did not keep the instant."""
    weak: list[tuple[Count, Count]] = []
    """Stamps, and how many failures of each count half. An older release counts them as a whole."""
    denied: list[tuple[str, Count, str]] = []
    """Rejected credentials, each with its stamp and process."""


class Saved(msgspec.Struct, array_like=True):
    """Format 1. You may append fields that have a default. Any other change is a new format."""

    format: Annotated[int, Meta(ge=1, le=FORMAT)]
    circuit_id: str
    state: _State
    previous_state: _State | None
    mode: Mode
    generation: Count
    attempt: Count
    changed_at: Instant
    open_until: Instant | None
    clock: Instant
    retry_at: Instant | None
    rejected: Count
    total_calls: Count
    total_failed: Count
    cause: _SavedCause | None
    """The first seven fields. The others were added later, and older readers check this length."""
    half_open: HalfOpen | None
    evidence: SavedEvidence
    cause_details: _CauseDetails | None = None
    cause_tools: Count | None = None
    ramp: Ramp | None = None


encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(Saved)


def decode(data: bytes) -> Saved:
    """Return the snapshot in ``data``.

    Raises:
        SnapshotError: The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in.
    """
    try:
        saved = _decoder.decode(data)
        _check(saved, STATES[saved.state])
    except (msgspec.MsgspecError, ValueError) as error:
        raise SnapshotError(
            f"Not a circuit snapshot of format {FORMAT} or older: {error}.",
            hint="If a newer release wrote it, upgrade this process too. If it is damaged, drop it: the circuit then starts "
            "closed and without evidence.",
        ) from error
    return saved


def _check(saved: Saved, state: str) -> None:
    if state == "open" and saved.open_until is None:
        raise ValueError("it is open without open_until")
    if (state == "half_open") != (saved.half_open is not None):
        raise ValueError(f"it is {state} {'without' if saved.half_open is None else 'with'} probes")
    if saved.ramp is not None and state != "closed":
        raise ValueError(f"it is {state} with a ramp")
    _check_evidence(saved.evidence, saved.clock)


def _check_evidence(evidence: SavedEvidence, clock: float) -> None:
    if max(len(evidence.failers), len(evidence.callers)) > evidence.reporters:
        raise ValueError(f"it has more reporters than {evidence.reporters}")
    if max(len(evidence.failing_tools), len(evidence.called)) > evidence.tools:
        raise ValueError(f"it has more tools than {evidence.tools}")
    if len(evidence.denied) > MOST_DENIED:
        raise ValueError(f"it has more rejected credentials than {MOST_DENIED}")
    if evidence.counted_at is not None and evidence.counted_at > clock:
        raise ValueError(f"it counted a call at {evidence.counted_at}, after its clock")
    is_possible = _is_pane if evidence.window_type == "time" else _is_call
    for entry in evidence.window:
        if not is_possible(entry):
            raise ValueError(f"its window holds {entry}")
    if sum(number for _, number in evidence.weak) > _failed(evidence):
        raise ValueError("more failures count half than there are failures")


def _is_pane(entry: tuple[int, ...]) -> bool:
    return len(entry) == 6 and max(entry[2], entry[3]) <= entry[1]  # neither more failed nor more slow than all calls


def _is_call(entry: tuple[int, ...]) -> bool:
    return len(entry) == 2 and entry[0] <= FAILED | SLOW


def _failed(evidence: SavedEvidence) -> int:
    """Return the failures in the window, whose entries are possible."""
    if evidence.window_type == "time":
        return sum(entry[2] for entry in evidence.window)
    return sum(entry[0] & FAILED for entry in evidence.window)


def save_cause(cause: Cause | None) -> tuple[_SavedCause | None, _CauseDetails | None, int | None]:
    """Return the three parts of a cause in a snapshot."""
    if cause is None:
        return None, None, None
    fields = msgspec.structs.astuple(cause)
    return cast("_SavedCause", fields[:7]), cast("_CauseDetails", fields[7:12]), cause.tools


def load_cause(saved: Saved) -> Cause | None:
    """Return the cause in a snapshot."""
    if saved.cause is None:
        return None
    return Cause(*saved.cause, *(saved.cause_details or (None,) * 5), saved.cause_tools)


def save_evidence(evidence: Evidence) -> SavedEvidence:
    """Return the evidence as it is, without empty panes."""
    window, limits = evidence.window, evidence.limits
    is_time = bool(window.panes)
    evidence.weak.count(window.oldest)  # forgets those that left the window
    return SavedEvidence(
        window_type="time" if is_time else "count",
        size=float(window.size),
        panes=window.panes,
        stamp=window.stamp,
        ignored=0 if is_time else window.ignored,
        window=window.dump(),
        slow_ms=None if limits.slow_ms == math.inf else limits.slow_ms,
        up=limits.cusum.up,
        down=limits.cusum.down,
        cusum=evidence.cusum,
        streak=evidence.streak,
        reporters=limits.minimum_reporters,
        failers=list(evidence.failers.seen.items()),
        callers=list(evidence.callers.seen.items()),
        cusum_calls=evidence.cusum_calls if evidence.cusum else 0,
        cusum_failed=evidence.cusum_failed if evidence.cusum else 0,
        tools=limits.minimum_tools,
        failing_tools=list(evidence.failing_tools.seen.items()),
        called=list(evidence.called),
        counted_at=evidence.counted_at if evidence.streak or evidence.cusum else None,
        weak=list(evidence.weak.by_stamp.items()),
        denied=[(name, stamp, reporter) for name, (stamp, reporter) in evidence.denied.items()],
    )


def load_evidence(saved: SavedEvidence, policy: Policy, now: float) -> Evidence:
    """Return the evidence under a policy, which may be another one than it was counted under.

    A run of failures stays, and from then on ends by the window of the new policy. The CUSUM stays if its rates do. The window and its reporters stay if the policy has the same window,
    slow calls and number of reporters and of tools.
    """
    evidence = Evidence(policy, now)
    empty = save_evidence(evidence)
    evidence.streak = saved.streak
    if saved.counted_at is not None:
        evidence.counted_at = saved.counted_at
    if (saved.up, saved.down) == (empty.up, empty.down):
        evidence.cusum = min(saved.cusum, evidence.limits.cusum.height)
        evidence.cusum_calls, evidence.cusum_failed = saved.cusum_calls, saved.cusum_failed
    if _shape(saved) == _shape(empty):
        evidence.window.load(saved.stamp, saved.window)
        if saved.window_type == "count":
            evidence.window.ignored = saved.ignored
        evidence.failers.seen = dict(saved.failers)
        evidence.callers.seen = dict(saved.callers)
        evidence.failing_tools.seen = dict(saved.failing_tools)
        evidence.called = dict.fromkeys(saved.called)
        evidence.weak = Weak(saved.weak)
        if evidence.limits.denied:
            last = saved.denied[-evidence.limits.denied :]
            evidence.denied = {name: (stamp, reporter) for name, stamp, reporter in last}
    return evidence


def _shape(saved: SavedEvidence) -> tuple[object, ...]:
    return saved.window_type, saved.size, saved.panes, saved.slow_ms, saved.reporters, saved.tools
