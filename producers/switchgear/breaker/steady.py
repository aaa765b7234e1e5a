"""When further successes change no decision, so that they can be counted together.

They only raise the number of calls and lower the sum of the CUSUM. Counted one by one, they would cost the worker several times as much.
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
    tools: Mapping[str, None] | None
    """Calls of other tools must be recorded one by one. None: the tool does not matter."""
    callers: Evidence | None
    """Must learn the reporters of the calls (:meth:`~Evidence.add_caller`): one more never makes a failure count for more. None: they do
    not matter."""


def steady(evidence: Evidence) -> Steady | None:
    """Return what holds for further successes, or None if one more may change a decision. The last call was a success."""
    window, limits = evidence.window, evidence.limits
    end = window.pane_end
    if end is None or evidence.streak or evidence.denied:
        return None
    if (window.failed or window.slow) and window.calls < limits.minimum_calls:
        return None  # one more call may be enough to judge the rates
    tools_suffice = limits.minimum_tools == 1 or len(evidence.called) >= limits.minimum_tools
    return Steady(
        end,
        limits.slow_ms,
        None if tools_suffice else evidence.called,
        None if limits.minimum_reporters == 1 or evidence.knows_callers else evidence,
    )
