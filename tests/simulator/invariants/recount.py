"""The rules of docs/breaker.md over a plain list of calls: slow and simple, without the breaker's code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

PANE_S: Final = 3.0
"""A window of 60 s has 20 panes. The oldest pane leaves as a whole."""
PANES: Final = 20
CUSUM_NATS: Final = 11.99
"""The threshold of the fleet's default, from docs/breaker.md: p0 = 0.1, p1 = 0.5, a million calls."""
CUSUM_TOLERANCE: Final = 0.985
"""The breaker counts in whole units, within 0.2 % of the logarithms per step, for about ten to a hundred steps."""
DAY_S: Final = 86_400
"""That long the sum lasts without calls."""
_UP: Final = math.log(0.5 / 0.1)
_DOWN: Final = math.log(0.9 / 0.5)


class Call(NamedTuple):
    """A finished call that counts, as the log has it."""

    at_ms: int
    failed: bool
    emitter: str
    generation: int | None
    lease_id: str | None
    began_s: float
    tool: str = ""
    offset: int = 0


def breached(rule: str, calls: Sequence[Call], at_ms: int, *, commanded: bool, tools: int = 1) -> bool:
    """Return whether a call at the instant ``at_ms`` breached ``rule``.

    Args:
        rule: The name of the rule.
        calls: The calls since the circuit closed, oldest first.
        at_ms: When it opened, by the log's clock.
        commanded: Whether a command has the same time. The worker may take it before older calls. A circuit's time never runs
            backwards, so those calls then get the command's time.
        tools: From how many tools failures must come, or from all that were called since the circuit
            closed, but from two at least.
    """
    ends = [index for index, call in enumerate(calls) if call.at_ms == at_ms or (commanded and call.at_ms < at_ms)]
    return any(_breached(rule, calls[: end + 1], tools) for end in ends)


def _breached(rule: str, calls: Sequence[Call], tools: int) -> bool:
    newest = int(calls[-1].at_ms / 1000 // PANE_S)
    window = [call for call in calls if int(call.at_ms / 1000 // PANE_S) > newest - PANES]
    callers = {call.emitter for call in window}
    failing = {call.emitter for call in window if call.failed}
    if len(failing) < min(2, len(callers)):
        return False
    wanted = 1 if tools == 1 else max(2, min(tools, len({call.tool for call in calls})))
    if len({call.tool for call in window if call.failed}) < wanted:
        return False
    if rule == "recovery_failed":
        return len(calls) >= 5 and sum(call.failed for call in calls) / len(calls) >= 0.5
    if rule == "failure_rate":
        return len(window) >= 20 and sum(call.failed for call in window) / len(window) >= 0.5
    if rule == "cusum":
        total, last_s = 0.0, calls[0].at_ms / 1000
        for call in calls:
            if call.began_s - last_s > DAY_S:
                total = 0.0
            last_s = call.at_ms / 1000
            total = total + _UP if call.failed else max(0.0, total - _DOWN)
            total = min(total, CUSUM_NATS)  # it stays at the threshold while too few processes report failures
        return total >= CUSUM_NATS * CUSUM_TOLERANCE
    return False
