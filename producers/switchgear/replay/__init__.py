"""Replay: recorded calls folded offline through the same breakers, to see what a policy would have done."""

from __future__ import annotations

from switchgear.replay.fold import Fold
from switchgear.replay.history_clock import StampedClock, UndatedCallError
from switchgear.replay.report import Summary, transition_line
from switchgear.replay.run import replay

__all__ = ["Fold", "StampedClock", "Summary", "UndatedCallError", "replay", "transition_line"]
