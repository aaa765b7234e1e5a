"""What the guard tells the fleet: every call's outcome, and refusals in bounded number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from switchgear.emitter.event import Event
from switchgear.guard.rejection import Rejection
from switchgear_schemas.execution import ServedBy

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter

REFUSAL_INTERVAL_S: Final = 1.0
_FORGET_AFTER_S: Final = 60.0


@dataclass(slots=True)
class _Refusals:
    last_sent: float
    waiting: int = 0
    latest: Event | None = None


class RefusalReporter:
    """At most one ``rejected`` event a tool and second, with the number it stands for in ``metadata.refused``.

    A hot loop on an open circuit so costs Kafka one event a second. The first refusal goes at once, the rest are summed until
    the next one or the next :meth:`sweep`. A request for a probe always goes, past any linger.
    """

    def __init__(self, emitter: Emitter, clock: Callable[[], float]) -> None:
        self._emitter = emitter
        self._clock = clock
        self._lock = threading.Lock()
        self._tools: dict[str, _Refusals] = {}

    def refused(
        self,
        rejection: Rejection,
        *,
        probe_requested: bool = False,
        served_by: ServedBy = "none",
        fallback_tool: str | None = None,
        user_id: str = "",
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Report one refused call."""
        event = Event(
            tool_name=rejection.tool,
            status="rejected",
            generation=rejection.generation,
            served_by=served_by,
            fallback_tool=fallback_tool,
            user_id=user_id,
            session_id=session_id,
            request_id=request_id,
            probe_requested=probe_requested,
        )
        now = self._clock()
        with self._lock:
            known = self._tools.get(rejection.tool)
            if known is None:
                known = self._tools[rejection.tool] = _Refusals(now)
            elif now < known.last_sent + REFUSAL_INTERVAL_S and not probe_requested:
                known.waiting += 1
                known.latest = event
                return
            event.metadata = _meaning(known.waiting + (0 if probe_requested else 1), rejection.source)
            known.waiting = 0
            known.latest = None
            known.last_sent = now
        self._emitter.emit(event, urgent=probe_requested)

    def sweep(self, *, everything: bool = False) -> None:
        """Send what has waited for its second (or ``everything``); forget tools that were not refused for a minute."""
        now = self._clock()
        ready: list[Event] = []
        with self._lock:
            for tool, known in list(self._tools.items()):
                if known.latest is not None and (everything or now >= known.last_sent + REFUSAL_INTERVAL_S):
                    known.latest.metadata = _meaning(known.waiting, None)
                    ready.append(known.latest)
                    known.waiting, known.latest, known.last_sent = 0, None, now
                elif known.latest is None and now >= known.last_sent + _FORGET_AFTER_S:
                    del self._tools[tool]
        for event in ready:
            self._emitter.emit(event)

    def forked(self) -> None:
        """In a child of a fork: the sums are the parent's."""
        self._lock = threading.Lock()
        self._tools.clear()


def _meaning(refused: int, source: str | None) -> dict[str, Any]:
    return {"refused": refused} if source is None else {"refused": refused, "refused_by": source}
