"""The snapshot of a circuit: a few hundred bytes of msgpack, in numbered formats.

The tests hold golden files of each format. The types below are the check of a snapshot: a decoded one is possible, field by field.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from switchgear.breaker.evidence import Evidence, Reporters
from switchgear.breaker.states import STATES
from switchgear.breaker.values import Cause
from switchgear.breaker.windows import CountWindow, TimeWindow
from switchgear_schemas.enums import Mode
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


FORMAT: Final = 1
"""The format that is written. A reader knows this one and every smaller one."""
MAX_COUNT: Final = 2**62
"""Bound of a count, an offset or a version. It leaves room to count on for centuries within 64 bits."""
LATEST_S: Final = 253_000_000_000.0
"""Seconds since 1970, in the year 9987. Later instants have no date."""

Count = Annotated[int, Meta(ge=0, lt=MAX_COUNT)]
Instant = Annotated[float, Meta(ge=0, lt=LATEST_S)]
_State = Annotated[int, Meta(ge=0, lt=len(STATES))]
_Measure = Annotated[float, Meta(ge=0, le=sys.float_info.max)]


class SnapshotError(SwitchgearError):
    """The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in."""


class SavedEvidence(msgspec.Struct, array_like=True):
    """The evidence in the shape in which it was counted. Another policy takes over what still has a meaning."""

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


SavedCause = tuple[str, _Measure | None, _Measure | None, Count | None, Count | None, str | None, str | None]
"""The first seven fields of a cause."""
SavedCauseDetails = tuple[Count | None, _Measure | None, _Measure | None, _Measure | None, _Measure | None]
"""The fields of a cause that were added later. ``SavedCause`` keeps its length, which older readers check."""
SavedHalfOpen = tuple[Count, Count, Count, Count, Count, Count, list[tuple[str, str]]]
"""The numbers of a :class:`~switchgear.breaker.half_open.HalfOpen`, and its leases with their holders."""


class Saved(msgspec.Struct, array_like=True):
    """Format 1. You may append fields that have a default. Any other change is a new format."""

    format: int
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
    cause: SavedCause | None
    half_open: SavedHalfOpen | None
    evidence: SavedEvidence
    cause_details: SavedCauseDetails | None = None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Saved)


def encode(saved: Saved) -> bytes:
    """Return the bytes of a snapshot."""
    return _encoder.encode(saved)


def decode(data: bytes) -> Saved:
    """Return the snapshot that :func:`encode` made.

    Raises:
        SnapshotError: The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in.
    """
    try:
        saved = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"Not a circuit snapshot of format {FORMAT} or older: {error}.") from error
    if not 1 <= saved.format <= FORMAT:
        raise SnapshotError(
            f"Not a circuit snapshot of format {FORMAT} or older, but of {saved.format}.",
            hint="A newer release wrote it: upgrade this process too.",
        )
    wrong = _contradiction(saved) or _contradiction_of_evidence(saved.evidence)
    if wrong is not None:
        raise SnapshotError(
            f"The circuit snapshot of {saved.circuit_id!r} is damaged: {wrong}.",
            hint="Drop it: the circuit then starts closed and without evidence.",
        )
    return saved


def _contradiction(saved: Saved) -> str | None:
    state = STATES[saved.state]
    if saved.total_failed > saved.total_calls:
        return f"total_failed {saved.total_failed} is more than total_calls {saved.total_calls}"
    if state == "open" and saved.open_until is None:
        return "it is open without open_until"
    if (state == "half_open") != (saved.half_open is not None):
        return f"it is {state} {'without' if saved.half_open is None else 'with'} probes"
    return None


def _contradiction_of_evidence(saved: SavedEvidence) -> str | None:
    if max(len(saved.failers), len(saved.callers)) > saved.reporters:
        return f"it has more reporters than {saved.reporters}"
    if saved.window_type == "time":
        if not saved.panes:
            return "its window has no panes"
        wrong = [pane for pane in saved.window if len(pane) != _PANE or max(pane[2], pane[3]) > pane[1]]
    else:
        if saved.size < 1 or len(saved.window) > saved.size or saved.stamp < len(saved.window):
            return (
                f"its window holds {len(saved.window)} calls of {saved.size:g}, the last with the number {saved.stamp}"
            )
        wrong = [call for call in saved.window if len(call) != _CALL or call[0] > _MAX_FLAGS]
    return f"its window holds {wrong[0]}" if wrong else None


_PANE: Final = 6
"""Numbers in a pane, its index included."""
_CALL: Final = 2
_MAX_FLAGS: Final = 3

_CAUSE: Final = Cause.__struct_fields__[:7]
_CAUSE_DETAILS: Final = Cause.__struct_fields__[7:]


def save_cause(cause: Cause | None) -> tuple[SavedCause | None, SavedCauseDetails | None]:
    """Return a cause without the names of its fields, and the details if it has any."""
    if cause is None:
        return None, None
    details = tuple(getattr(cause, name) for name in _CAUSE_DETAILS)
    known = any(detail is not None for detail in details)
    return tuple(getattr(cause, name) for name in _CAUSE), details if known else None


def load_cause(saved: SavedCause | None, details: SavedCauseDetails | None) -> Cause | None:
    """Return the cause that :func:`save_cause` saved."""
    return None if saved is None else Cause(*saved, *(details or ()))


def save_evidence(evidence: Evidence) -> SavedEvidence:
    """Return the evidence as it is, without empty panes."""
    window, limits = evidence.window, evidence.limits
    is_time = isinstance(window, TimeWindow)
    return SavedEvidence(
        window_type="time" if is_time else "count",
        size=float(window.size),
        panes=window.panes if isinstance(window, TimeWindow) else 0,
        stamp=window.stamp,
        ignored=0 if is_time else window.ignored,
        window=[tuple(entry) for entry in window],
        slow_ms=None if limits.slow_ms == math.inf else float(limits.slow_ms),
        up=limits.up,
        down=limits.down,
        cusum=evidence.cusum,
        streak=evidence.streak,
        reporters=limits.minimum_reporters,
        failers=[] if evidence.failers is None else list(evidence.failers.seen.items()),
        callers=[] if evidence.callers is None else list(evidence.callers.seen.items()),
        cusum_calls=evidence.cusum_calls if evidence.cusum else 0,
        cusum_failed=evidence.cusum_failed if evidence.cusum else 0,
    )


def load_evidence(saved: SavedEvidence, policy: BreakerPolicy, now: float) -> Evidence:
    """Return the evidence as it was counted, then adapted to ``policy``."""
    evidence = Evidence(policy, now)
    evidence.limits = msgspec.structs.replace(
        evidence.limits,
        slow_ms=math.inf if saved.slow_ms is None else saved.slow_ms,
        up=saved.up,
        down=saved.down,
        minimum_reporters=saved.reporters,
    )
    evidence.streak, evidence.cusum = saved.streak, saved.cusum
    evidence.cusum_calls, evidence.cusum_failed = saved.cusum_calls, saved.cusum_failed
    if saved.window_type == "time":
        evidence.window = time = TimeWindow(saved.size, saved.panes, now)
        time.stamp = saved.stamp
        time.clear()
        for index, calls, failed, slow, ignored, tokens in saved.window:
            time.put((index, calls, failed, slow, ignored, tokens))
    else:
        evidence.window = count = CountWindow(int(saved.size))
        count.stamp = saved.stamp - len(saved.window)
        for flags, tokens in saved.window:
            count.put((flags, tokens))
        count.ignored = saved.ignored
    evidence.failers = evidence.callers = None
    if saved.reporters > 1:
        evidence.failers = Reporters(saved.reporters, saved.failers)
        evidence.callers = Reporters(saved.reporters, saved.callers)
    evidence.adapt(policy, now)
    return evidence
