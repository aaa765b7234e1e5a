"""replay(): a history file through one or two policy sets, as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from switchgear.history import HistoryLine
from switchgear.replay.fold import Fold
from switchgear.replay.history_clock import StampedClock
from switchgear.replay.report import transition_line
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import decode_execution


def replay(
    history: Iterable[HistoryLine],
    policies: dict[str, Callable[[str], BreakerPolicy]],
    *,
    stamp_s: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Fold ``history`` through each set of policies.

    Args:
        history: The calls, in the order in which they ended.
        policies: Name of a set of policies to the policy of a tool.
        stamp_s: Seconds between calls that have no ``recorded_at``; None refuses such a history.

    Yields:
        A dict a transition, with ``policy`` (the set's name), then one ``summary`` a set. The same input gives the same
        lines to the byte.

    Raises:
        UndatedCallError: a call has no instant, and ``stamp_s`` is None.
    """
    folds = {name: Fold(policy_of) for name, policy_of in policies.items()}
    clock = StampedClock(stamp_s)
    lines = invalid = 0
    for line in history:
        lines += 1
        if line.event is None:
            invalid += 1
            continue
        call = decode_execution(line.raw)
        ended_at = clock.end_of(call, line.number)
        for name, fold in folds.items():
            for transition in fold.add(call, ended_at):
                yield {"policy": name, **transition_line(transition, call.tool_name)}
    for name, fold in folds.items():
        summary = fold.summary
        summary.lines, summary.invalid, summary.stamped = lines, invalid, clock.stamped
        yield {"policy": name, "summary": msgspec.to_builtins(summary)}
