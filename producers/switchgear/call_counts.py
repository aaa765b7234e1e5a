"""CallCounts: calls, refusals, fallbacks and changes by tool, counted by hooks."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from switchgear.call_outcome import CallOutcome
from switchgear.circuit_change import CircuitChange
from switchgear.fork_safe import ForkSafe
from switchgear.guard.rejection import Rejection
from switchgear.hooks import Hooks

OTHER: Final = "(other)"
"""Stands for every tool beyond the limit."""

Labels = tuple[str, str]


class CallCounts(Hooks, ForkSafe):
    """Counts since the start, for a metrics system: ``Switchgear(..., hooks=[counts])``. Thread-safe.

    With any hook for outcomes each call goes the long way through the guard; without, the guard is as fast as it can be, and
    :class:`~switchgear.prometheus.SwitchgearCollector` shows everything but these numbers.

    Args:
        most_tools: tools that have numbers of their own; the rest are summed up as :data:`OTHER`.
    """

    def __init__(self, *, most_tools: int = 1_000) -> None:
        super().__init__()
        self._most_tools = most_tools
        self._lock = threading.RLock()  # a signal handler may call a tool amid any of these
        self._tools: set[str] = set()
        self.calls: Counter[Labels] = Counter()
        """By tool and status."""
        self.microseconds: Counter[str] = Counter()
        """Time spent in calls, by tool."""
        self.rejections: Counter[Labels] = Counter()
        """By tool and whose circuit refused."""
        self.fallbacks: Counter[Labels] = Counter()
        """By tool and what was called instead."""
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        """By tool, whose circuit, and new state."""

    def on_outcome(self, outcome: CallOutcome) -> None:
        """A call ended."""
        with self._lock:
            tool = self._named(outcome.tool)
            self.calls[tool, outcome.status] += 1
            self.microseconds[tool] += round(outcome.duration_ms * 1000)

    def on_rejected(self, rejection: Rejection) -> None:
        """A call was refused."""
        with self._lock:
            self.rejections[self._named(rejection.tool), rejection.source] += 1

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Something else is called."""
        with self._lock:
            self.fallbacks[self._named(rejection.tool), self._named(tool)] += 1

    def on_transition(self, change: CircuitChange) -> None:
        """A circuit changed its state."""
        with self._lock:
            self.transitions[self._named(change.tool), change.source, change.state] += 1

    def forked(self) -> None:
        """In a child of a fork: its own lock; the counts go on from the parent's."""
        self._lock = threading.RLock()

    def _named(self, tool: str) -> str:
        if tool not in self._tools:
            if len(self._tools) >= self._most_tools:
                return OTHER
            self._tools.add(tool)
        return tool
