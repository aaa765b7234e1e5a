"""When further successes change only the number of calls, so that they can be counted together.

The circuit of a family gets the calls of all its tools. Counted one by one, they would cost the worker half as much again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from switchgear.breaker.evidence import Evidence


class Steady(NamedTuple):
    """What holds for successes that can be counted together."""

    until: float
    """End of the pane."""
    slow_ms: float
    """Slower calls must be recorded one by one."""
    stamp: int
    reporters: Mapping[str, int] | None
    """Calls of other reporters, and of those with another stamp, must be recorded one by one. None: the reporter does not matter."""
    tools: Mapping[str, None] | None
    """The same for tools."""


def steady(evidence: Evidence) -> Steady | None:
    """Return what holds for further successes, or None if one more may change a decision."""
    window, limits = evidence.window, evidence.limits
    end = window.pane_end
    if end is None or evidence.streak or evidence.cusum or evidence.denied:
        return None
    if (window.failed or window.slow) and window.calls < limits.minimum_calls:
        return None  # one more call may be enough to judge the rates
    reporters_suffice = limits.minimum_reporters == 1 or evidence.callers.suffice(window.stamp)
    tools_suffice = limits.minimum_tools == 1 or len(evidence.called) >= limits.minimum_tools
    return Steady(
        end,
        limits.slow_ms,
        window.stamp,
        None if reporters_suffice else evidence.callers.seen,
        None if tools_suffice else evidence.called,
    )
