"""Snapshot: a circuit as a few hundred bytes of msgpack, in numbered formats. Golden files of each are in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.breaker.cause import Cause
from switchgear.breaker.evidence import Evidence
from switchgear.breaker.reporters import Reporters
from switchgear.breaker.window_count import CountWindow
from switchgear.breaker.window_time import TimeWindow
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import Mode

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy

FORMAT: Final = 1
"""Number of the format that is written. A reader knows it and every smaller one."""


class SnapshotError(SwitchgearError):
    """Bytes that are no snapshot, or one of a format that this release does not know."""


class SavedEvidence(msgspec.Struct, array_like=True):
    """Evidence with the shape it was counted in, so that another policy can take over what still means something."""

    window_type: str
    size: float
    panes: int
    stamp: int
    ignored: int
    window: list[tuple[int, ...]]
    slow_ms: float | None
    up: int
    down: int
    cusum: int
    streak: int
    reporters: int
    failers: list[tuple[str, int]]
    callers: list[tuple[str, int]]
    cusum_calls: int = 0
    cusum_failed: int = 0


class Saved(msgspec.Struct, array_like=True):
    """Format 1. Fields may be appended with a default; anything else is a new format."""

    format: int
    circuit_id: str
    state: int
    previous_state: int | None
    mode: Mode
    generation: int
    attempt: int
    changed_at: float
    open_until: float | None
    clock: float
    retry_at: float | None
    rejected: int
    total_calls: int
    total_failed: int
    cause: list[Any] | None
    half_open: list[Any] | None
    evidence: SavedEvidence
    cause_details: list[Any] | None = None
    """The fields of the cause that came later; ``cause`` keeps its length, which older readers check."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Saved)


def encode(saved: Saved) -> bytes:
    """The bytes of a snapshot."""
    return _encoder.encode(saved)


def decode(data: bytes) -> Saved:
    """The inverse of :func:`encode`.

    Raises:
        SnapshotError: for bytes that are no snapshot or of a newer format.
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
    return saved


_CAUSE: Final = Cause.__struct_fields__[:7]
_CAUSE_DETAILS: Final = Cause.__struct_fields__[7:]


def save_cause(cause: Cause | None) -> list[Any] | None:
    """A cause as a list, without the names; :func:`save_cause_details` has the rest."""
    return None if cause is None else [getattr(cause, name) for name in _CAUSE]


def save_cause_details(cause: Cause | None) -> list[Any] | None:
    """What :func:`save_cause` leaves out; None where there is nothing."""
    details = [getattr(cause, name, None) for name in _CAUSE_DETAILS]
    return None if all(detail is None for detail in details) else details


def load_cause(saved: list[Any] | None, details: list[Any] | None) -> Cause | None:
    """The inverse of :func:`save_cause` and :func:`save_cause_details`."""
    return None if saved is None else Cause(*saved, *(details or ()))


def save_evidence(evidence: Evidence) -> SavedEvidence:
    """Evidence as it is, without empty panes."""
    window, limits = evidence.window, evidence.limits
    is_time = isinstance(window, TimeWindow)
    return SavedEvidence(
        window_type="time" if is_time else "count",
        size=float(window.size),
        panes=window.panes if isinstance(window, TimeWindow) else 0,
        stamp=window.stamp,
        ignored=0 if is_time else window.ignored,
        window=[tuple(entry) for entry in window],
        slow_ms=None if limits.slow_ms == float("inf") else float(limits.slow_ms),
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
    """The evidence as it was counted, then adapted to ``policy``."""
    evidence = Evidence(policy, now)
    limits = evidence.limits
    evidence.limits = msgspec.structs.replace(
        limits,
        slow_ms=float("inf") if saved.slow_ms is None else saved.slow_ms,
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
