"""What a policy would have done for one tool or glob: the numbers that the policy lab compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from switchgear.breaker import Transition
from switchgear_api.replay.replay import Fold, circuit_of
from switchgear_schemas.enums import BROKEN
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.times import rfc3339
from switchgear_schemas.wire import Execution

MOST_TRANSITIONS: Final = 1_000


@dataclass(slots=True)
class _Outage:
    """The time from an opening to the close after it, for one circuit."""

    since: float
    failed: int = 0
    succeeded: int = 0

    @property
    def false(self) -> bool:
        """At least as many of the refused calls had succeeded as had failed."""
        return self.succeeded > 0 and self.succeeded >= self.failed


@dataclass(slots=True)
class WhatIf:
    """Folds calls and sums up. ``calls_saved`` are failed calls that would not have been made."""

    policy_of: Callable[[str], BreakerPolicy]
    usd_saved: float = 0.0
    false_opens: int = 0
    open_s: float = 0.0
    transitions: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, _Outage] = field(default_factory=dict)

    def run(self, calls: Iterable[Execution]) -> dict[str, Any]:
        """Fold the calls, in the order in which they ended, and return the numbers."""
        fold, last = Fold(self.policy_of), 0.0
        refused = fold.summary.refused
        for call in calls:
            last = call.recorded_s or last
            before = (refused.failed, refused.succeeded)
            found = list(fold.add(call, last))
            failed, succeeded = refused.failed - before[0], refused.succeeded - before[1]
            if failed:
                self.usd_saved += call.cost_usd or 0.0
            if failed or succeeded:
                self._count(call, failed, succeeded)
            for transition in found:
                self._note(transition, call.tool_name)
        for outage in self._open.values():
            self._end(outage, last)
        summary = fold.summary
        return {
            "calls": summary.calls,
            "failed": summary.failed,
            "opens": summary.opens,
            "would_open": summary.would_open,
            "false_opens": self.false_opens,
            "calls_saved": refused.failed,
            "calls_lost": refused.succeeded,
            "tokens_saved": refused.tokens_avoided,
            "usd_saved": self.usd_saved,
            "seconds_saved": refused.seconds_avoided,
            "minutes_open": round(self.open_s / 60, 3),
            "transitions": self.transitions,
        }

    def _count(self, call: Execution, failed: int, succeeded: int) -> None:
        policy = self.policy_of(call.tool_name)
        outage = self._open.get(circuit_of(call, policy))
        if outage is not None:
            outage.failed += failed
            outage.succeeded += succeeded

    def _note(self, transition: Transition, tool: str) -> None:
        if len(self.transitions) < MOST_TRANSITIONS:
            at = rfc3339(transition.at)
            self.transitions.append({"at": at, "tool": tool, "state": transition.state, "rule": transition.cause.rule})
        if transition.state in BROKEN:
            self._open.setdefault(transition.circuit_id, _Outage(transition.at))
        elif (outage := self._open.pop(transition.circuit_id, None)) is not None:
            self._end(outage, transition.at)

    def _end(self, outage: _Outage, at: float) -> None:
        self.open_s += max(0.0, at - outage.since)
        self.false_opens += outage.false
