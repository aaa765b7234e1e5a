"""What the guard tells the fleet: every call's outcome, and refusals in bounded number."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from switchgear.emitter.event import Event
from switchgear.guard.permit import caller_of
from switchgear.guard.rejection import Rejection
from switchgear_schemas.words import ServedBy

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter

REFUSAL_INTERVAL_S: Final = 1.0
_FORGET_AFTER_S: Final = 60.0

Details = tuple[ServedBy, str | None, str, str | None, str | None]
"""What produced the result instead and by which tool; user, session and request of the call."""
_NO_DETAILS: Final[Details] = ("none", None, "", None, None)


class _Refusals:
    """Of one tool. ``tally`` counts the refusals that wait to be told of, also in threads that hold no lock."""

    __slots__ = ("_looks", "_taken", "last_sent", "latest", "tally")

    def __init__(self, last_sent: float) -> None:
        self.last_sent = last_sent
        self.latest: tuple[Rejection, Details] | None = None
        self.tally = itertools.count(1).__next__  # one step in C, so none is lost between two threads
        self._looks = 0
        self._taken = 0

    def take(self) -> int:
        """Refusals since the last time."""
        self.latest = None
        looks = self._looks = self._looks + 1
        so_far = self.tally() - looks
        if so_far <= self._taken:  # a signal handler amid this took them already
            return 0
        found, self._taken = so_far - self._taken, so_far
        return found


class RefusalReporter:
    """At most one ``rejected`` event a tool and second, with the number it stands for in ``metadata.refused``.

    A hot loop on an open circuit so costs Kafka one event a second, and itself no event at all in between. The first refusal
    goes at once, the rest are summed until the next one or the next :meth:`sweep`. A request for a probe always goes, past
    any linger.
    """

    def __init__(self, emitter: Emitter, clock: Callable[[], float]) -> None:
        self._emitter = emitter
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may close, or call a tool, amid any of these
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
        details = (served_by, fallback_tool, user_id, session_id, request_id)
        now = self._clock()
        with self._lock:
            known, first = self._tools.get(rejection.tool), None
            if known is None:
                first = _Refusals(now)
                known = self._tools.setdefault(rejection.tool, first)  # in one step, for a signal handler's sake
            if known is not first and now < known.last_sent + REFUSAL_INTERVAL_S and not probe_requested:
                known.tally()
                known.latest = (rejection, details)
                return
            waited = known.take()
            known.last_sent = now
        meaning = {"refused": waited + (0 if probe_requested else 1), "refused_by": rejection.source}
        self._emitter.emit(_event(rejection, details, meaning, probe_requested), urgent=probe_requested)

    def refused_again(self, rejection: Rejection, now: float) -> None:
        """:meth:`refused` of a call without details, at ``now``: within the second it takes no lock and makes no event."""
        known = self._tools.get(rejection.tool)
        if known is not None and now < known.last_sent + REFUSAL_INTERVAL_S:
            known.tally()
            known.latest = (rejection, _NO_DETAILS)
        else:
            self.refused(rejection)

    def sweep(self, *, everything: bool = False) -> None:
        """Send what has waited for its second (or ``everything``); forget tools that were not refused for a minute."""
        now = self._clock()
        ready: list[Event] = []
        with self._lock:
            for tool in list(self._tools):
                known = self._tools.get(tool)
                if known is None:
                    continue
                latest = known.latest
                if latest is not None and (everything or now >= known.last_sent + REFUSAL_INTERVAL_S):
                    refused = known.take()
                    if refused:  # else the last one was summed before it left its details
                        ready.append(_event(*latest, {"refused": refused}, probe_requested=False))
                        known.last_sent = now
                elif latest is None and now >= known.last_sent + _FORGET_AFTER_S:
                    self._tools.pop(tool, None)
        for event in ready:
            self._emitter.emit(event)

    def forked(self) -> None:
        """In a child of a fork: the sums are the parent's."""
        self._lock = threading.RLock()
        self._tools.clear()


def _event(rejection: Rejection, details: Details, meaning: dict[str, Any], probe_requested: bool) -> Event:
    served_by, fallback_tool, *caller = details
    user_id, session_id, request_id = caller_of(*caller)
    return Event(
        tool_name=rejection.tool,
        status="rejected",
        generation=rejection.generation,
        served_by=served_by,
        fallback_tool=fallback_tool,
        user_id=user_id,
        session_id=session_id,
        request_id=request_id,
        probe_requested=probe_requested,
        metadata=meaning,
    )
