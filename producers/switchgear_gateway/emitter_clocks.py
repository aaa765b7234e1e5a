"""Tell each emitter once that its clock is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_http.principal import Principal
from switchgear_schemas.emitter_clocks import clock_of_event
from switchgear_schemas.records import AHEAD_S
from switchgear_schemas.wire import Execution

MOST_TOLD: Final = 10_000
"""Emitters that are remembered. After so many others, an emitter may be told again."""
_TOLERANCE: Final = timedelta(seconds=AHEAD_S)
_MOST_NAME: Final = 128


class EmitterClocks:
    """Finds executions with a wrong time.

    Args:
        late_after_s: As in the settings.
    """

    def __init__(self, late_after_s: float) -> None:
        self._late_after_s = late_after_s
        self._told = BoundedDict[tuple[str, str, bool], None](MOST_TOLD)

    def __len__(self) -> int:
        return len(self._told)

    def warning(self, execution: Execution, principal: Principal, now: datetime) -> str | None:
        """Return what to tell the emitter of an execution. None: nothing, or it was told before."""
        at = execution.recorded_at
        if at is None or (at.tzinfo is not None and at - now <= _TOLERANCE):
            return None
        zoned, sent_s = at.tzinfo is not None, execution.recorded_s or 0.0
        wrong = clock_of_event(sent_s, now.timestamp(), zoned=zoned, late_after_s=self._late_after_s)
        emitter = (execution.emitter_id or principal.name)[:_MOST_NAME]
        key = (principal.name, emitter, zoned)
        if wrong is None or key in self._told:
            return None
        self._told[key] = None
        return f"{emitter}: {wrong.text}. {wrong.todo}"
