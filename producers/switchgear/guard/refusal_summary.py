"""What the guard tells the fleet: every call's outcome, and refusals in bounded number."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.emitter.event import Event
from switchgear.guard.permits import caller_of
from switchgear.guard.rejections import MOST_OF_AN_ERROR, Rejection
from switchgear.redaction.redact import one_line
from switchgear_schemas.enums import ServedBy

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter


REFUSAL_INTERVAL_S: Final = 1.0
_FORGET_AFTER_S: Final = 60.0

Details = tuple[ServedBy, str | None, str, str | None, str | None]
"""What produced the result instead and by which tool; user, session and request of the call."""
_NO_DETAILS: Final[Details] = ("none", None, "", None, None)


class _Refusals:
    """Of one tool by one source. ``tally`` counts those that wait to be reported, also in threads that hold no lock."""

    __slots__ = ("_looks", "_taken", "last_sent", "latest", "tally")

    def __init__(self, last_sent: float) -> None:
        self.last_sent = last_sent
        self.latest: tuple[Rejection, Details, float] | None = None
        """With the instant of the refusal, by the reporter's clock."""
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
    """At most one ``rejected`` event a second for a tool and the source of its refusals, with the number it stands for.

    A hot loop on an open circuit so costs Kafka one event a second, and itself no event at all in between. The first refusal
    goes at once, the rest are summed until the next one or the next :meth:`sweep`; the event carries the time of the last. A
    request for a probe always goes, past any linger.

    Args:
        emitter: Sends the events.
        clock: Monotonic seconds.
        wall: Seconds since 1970.
    """

    def __init__(self, emitter: Emitter, clock: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._emitter = emitter
        self._clock = clock
        self._wall = wall
        self._lock = threading.RLock()  # a signal handler may close, or call a tool, amid any of these
        self._tools: dict[tuple[str, str], _Refusals] = {}
        """By tool and source."""

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
        key = rejection.tool, rejection.source
        with self._lock:
            known, first = self._tools.get(key), None
            if known is None:
                first = _Refusals(now)
                known = self._tools.setdefault(key, first)  # in one step, for a signal handler's sake
            if known is not first and now < known.last_sent + REFUSAL_INTERVAL_S and not probe_requested:
                known.tally()
                known.latest = (rejection, details, now)
                return
            waited = known.take()
            known.last_sent = now
        refused = waited + (0 if probe_requested else 1)
        self._emitter.emit(_event(rejection, details, refused, probe_requested), urgent=probe_requested)

    def refused_again(self, rejection: Rejection, now: float) -> None:
        """:meth:`refused` of a call without details, at ``now``: within the second it takes no lock and makes no event."""
        known = self._tools.get((rejection.tool, rejection.source))
        if known is not None and now < known.last_sent + REFUSAL_INTERVAL_S:
            known.tally()
            known.latest = (rejection, _NO_DETAILS, now)
        else:
            self.refused(rejection)

    def sweep(self, *, everything: bool = False) -> None:
        """Send what has waited for its second (or ``everything``); forget tools that were not refused for a minute."""
        now = self._clock()
        ready: list[tuple[Event, float]] = []
        with self._lock:
            for key in list(self._tools):
                known = self._tools.get(key)
                if known is None:
                    continue
                latest = known.latest
                if latest is not None and (everything or now >= known.last_sent + REFUSAL_INTERVAL_S):
                    refused = known.take()
                    if refused:  # else the last one was summed before it left its details
                        rejection, details, at = latest
                        ready.append((_event(rejection, details, refused, probe_requested=False), max(0.0, now - at)))
                        known.last_sent = now
                elif latest is None and now >= known.last_sent + _FORGET_AFTER_S:
                    self._tools.pop(key, None)
        for event, ago in ready:
            self._emitter.emit(event, ended_at=self._wall() - ago)

    def forked(self) -> None:
        """In a child of a fork: the sums are the parent's."""
        self._lock = threading.RLock()
        self._tools.clear()


def _event(rejection: Rejection, details: Details, refused: int, probe_requested: bool) -> Event:
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
        metadata={"refused": refused, "refused_by": rejection.source, **_circuit(rejection)},
    )


def _circuit(rejection: Rejection) -> dict[str, Any]:
    """Of a process's own circuit, which has no record: what a record would say."""
    if rejection.source != "local":
        return {}
    found: dict[str, Any] = {"state": rejection.state, "scope": rejection.scope}
    if rejection.retry_after_s is not None:
        found["retry_after_s"] = round(rejection.retry_after_s, 3)
    if rejection.cause is not None:
        cause = msgspec.structs.asdict(rejection.cause)
        found["cause"] = {name: value for name, value in cause.items() if value is not None}
    if rejection.last_error:
        shown = one_line(rejection.last_error, MOST_OF_AN_ERROR)
        found["last_error"] = shown.encode(
            "utf-8", "replace"
        ).decode()  # else it takes the rest of the metadata with it
    return found
