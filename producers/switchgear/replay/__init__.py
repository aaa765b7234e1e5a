"""Fold recorded calls through the same breakers, offline, to see what a policy would have done."""

from __future__ import annotations

from switchgear.replay.history import StampedClock, UndatedCallError
from switchgear.replay.replay import Fold, Summary, replay

__all__ = ["Fold", "StampedClock", "Summary", "UndatedCallError", "replay"]
