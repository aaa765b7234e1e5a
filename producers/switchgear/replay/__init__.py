"""Replay: recorded calls folded offline through the same breakers, to see what a policy would have done."""

from __future__ import annotations

from switchgear.replay.history import StampedClock, UndatedCallError
from switchgear.replay.replay import Fold, replay
from switchgear.replay.report import Summary, transition_line

__all__ = ["Fold", "StampedClock", "Summary", "UndatedCallError", "replay", "transition_line"]
