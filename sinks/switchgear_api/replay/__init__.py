"""Fold recorded calls through the same breakers, offline, to see what a policy would have done."""

from __future__ import annotations

from switchgear_api.replay.replay import Fold, Summary, UndatedCallError, replay, stamped_at

__all__ = ["Fold", "Summary", "UndatedCallError", "replay", "stamped_at"]
