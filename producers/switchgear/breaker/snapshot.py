"""Snapshot: a circuit as a few hundred bytes of msgpack, in numbered formats. Golden files of each are in the tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.breaker.evidence import Evidence, Reporters
from switchgear.breaker.states import STATES
from switchgear.breaker.values import Cause
from switchgear.breaker.windows import CountWindow, TimeWindow
from switchgear_schemas.enums import Mode
from switchgear_schemas.errors import SwitchgearError

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


_PANE: Final = 6
"""Numbers of a pane with its index; :class:`~switchgear.breaker.windows.TimeWindow` has them."""
_CALL: Final = 2
_HALF_OPEN: Final = 7
_CHECKED_CAUSE: Final = 7
_CHECKED_DETAILS: Final = 5
_MOST_FLAGS: Final = 3
_MOST_PANES: Final = 120
_MOST_SIZE: Final = 86_400
_MOST_REPORTERS: Final = 64


def check(saved: Saved) -> None:
    """Let a snapshot pass that some circuit may have written.

    Raises:
        SnapshotError: naming the first field that can't be.
    """
    wrong = next(_wrong(saved), None)
    if wrong is not None:
        raise SnapshotError(
            f"The circuit snapshot of {saved.circuit_id!r} is damaged: {wrong}.",
            hint="Drop it: the circuit then starts closed and learns anew.",
        )


def _wrong(saved: Saved) -> Iterator[str]:
    for name in ("state", "previous_state"):
        number = getattr(saved, name)
        if number is not None and not 0 <= number < len(STATES):
            yield f"{name} {number} is none of {len(STATES)}"
    for name in ("changed_at", "clock", "open_until", "retry_at"):
        moment = getattr(saved, name)
        if moment is not None and not math.isfinite(moment):
            yield f"{name} is {moment}"
    yield from _negative(saved, "generation", "attempt", "rejected", "total_calls", "total_failed")
    if saved.total_failed > saved.total_calls:
        yield f"total_failed {saved.total_failed} is more than total_calls {saved.total_calls}"
    state = STATES[saved.state]
    if state == "open" and saved.open_until is None:
        yield "it is open without open_until"
    if (state == "half_open") != (saved.half_open is not None):
        yield f"it is {state} {'with' if saved.half_open is not None else 'without'} probes"
    if saved.half_open is not None and not _is_half_open(saved.half_open):
        yield "half_open is no count of probes"
    if not _is_cause(saved.cause, saved.cause_details):
        yield "cause is none"
    yield from _wrong_evidence(saved.evidence)


def _wrong_evidence(saved: SavedEvidence) -> Iterator[str]:
    if saved.window_type not in ("time", "count"):
        yield f"window_type is {saved.window_type!r}"
    if not 0 < saved.size <= _MOST_SIZE:
        yield f"the window's size is {saved.size}"
    is_time = saved.window_type == "time"
    if is_time and not 1 <= saved.panes <= _MOST_PANES:
        yield f"the window has {saved.panes} panes"
    if not is_time and (saved.size < 1 or len(saved.window) > saved.size or saved.stamp < len(saved.window)):
        yield f"the window holds {len(saved.window)} calls of {saved.size}, the last number {saved.stamp}"
    yield from _wrong_entries(saved)
    if saved.slow_ms is not None and not saved.slow_ms > 0:
        yield f"slow_ms is {saved.slow_ms}"
    yield from _negative(saved, "ignored", "up", "down", "cusum", "streak", "cusum_calls", "cusum_failed")
    if not 1 <= saved.reporters <= _MOST_REPORTERS:
        yield f"reporters is {saved.reporters}"
    for name in ("failers", "callers"):
        if len(getattr(saved, name)) > saved.reporters:
            yield f"{name} are more than {saved.reporters}"


def _wrong_entries(saved: SavedEvidence) -> Iterator[str]:
    is_time = saved.window_type == "time"
    for entry in saved.window:
        if not (_is_pane(entry) if is_time else _is_call(entry)):
            yield f"the window holds {entry}"


def _negative(saved: Saved | SavedEvidence, *names: str) -> Iterator[str]:
    for name in names:
        if getattr(saved, name) < 0:
            yield f"{name} is {getattr(saved, name)}"


def _is_pane(entry: tuple[int, ...]) -> bool:
    if len(entry) != _PANE or min(entry[1:]) < 0:
        return False
    _, calls, failed, slow, _, _ = entry
    return max(failed, slow) <= calls and max(entry[1:]) < 2**62


def _is_call(entry: tuple[int, ...]) -> bool:
    return len(entry) == _CALL and 0 <= entry[0] <= _MOST_FLAGS and 0 <= entry[1] < 2**62


def _is_half_open(saved: list[Any]) -> bool:
    if len(saved) != _HALF_OPEN:
        return False
    *numbers, outstanding = saved
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and isinstance(outstanding, list | tuple)
        and all(len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in outstanding)
    )


def _is_cause(saved: list[Any] | None, details: list[Any] | None) -> bool:
    if saved is None:
        return details is None
    if len(saved) != _CHECKED_CAUSE or (details is not None and not _are_details(details)):
        return False
    rule, value, threshold, sample, reporters, actor, reason = saved
    return (
        isinstance(rule, str)
        and all(
            number is None or (isinstance(number, int | float) and math.isfinite(number))
            for number in (value, threshold)
        )
        and all(number is None or (type(number) is int and number >= 0) for number in (sample, reporters))
        and all(text is None or isinstance(text, str) for text in (actor, reason))
    )


def _are_details(saved: list[Any]) -> bool:
    return len(saved) == _CHECKED_DETAILS and all(
        number is None or (type(number) in (int, float) and number >= 0 and math.isfinite(number)) for number in saved
    )
