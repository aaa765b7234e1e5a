"""What no circuit can be in: a snapshot of the right shape with numbers that mean nothing is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from switchgear.breaker.snapshot import Saved, SavedEvidence, SnapshotError
from switchgear.breaker.states import STATES

_PANE: Final = 6
"""Numbers of a pane with its index; :class:`~switchgear.breaker.window_time.TimeWindow` has them."""
_CALL: Final = 2
_HALF_OPEN: Final = 7
_CAUSE: Final = 7
_CAUSE_DETAILS: Final = 5
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
    if len(saved) != _CAUSE or (details is not None and not _are_details(details)):
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
    return len(saved) == _CAUSE_DETAILS and all(
        number is None or (type(number) in (int, float) and number >= 0 and math.isfinite(number)) for number in saved
    )
