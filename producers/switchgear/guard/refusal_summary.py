"""Refused calls, summed for the fleet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from switchgear.emitter.event import Event
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.model_text import MOST_OF_AN_ERROR
from switchgear.redaction import one_line
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.enums import ServedBy

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter


REFUSAL_INTERVAL_S: Final = 1.0
_FORGET_AFTER_S: Final = 60.0

_Refusal = tuple[Rejection, float, Caller, ServedBy, str | None]
"""What was refused, when (by the reporter's clock), for whom, what served the caller instead, and which fallback tool did.
It is a tuple because every refusal makes one.
"""


class _Refusals(msgspec.Struct):
    """The refusals of one tool, or of one of its targets, by one source."""

    last_sent: float
    count: int = 0
    """Those that wait to be sent."""
    latest: _Refusal | None = None

    def take(self, now: float) -> int:
        """Return the number of those that wait. They are sent at ``now``."""
        count, self.count = self.count, 0
        self.latest, self.last_sent = None, now
        return count


class RefusalReporter:
    """Sends at most one ``rejected`` event per second for each tool, target, tenant and source, with the number of refusals.

    A loop that calls an open circuit costs Kafka one event per second. The first refusal is sent at once. The following ones
    are summed until a second has passed, and sent with the next one or by :meth:`sweep`. Their event carries the time of the
    last one. A request for a probe is sent at once.
    """

    def __init__(self, emitter: Emitter, clock: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self.asked: Callable[[str, Caller], tuple[int, str] | None] = lambda _tool, _caller: None
        """Returns how many calls of a tool were asked for, if its limit is kept, and with which credential."""
        self._emitter = emitter
        self._clock = clock
        self._wall = wall
        self._tools: dict[tuple[str, str, str | None, str, str], _Refusals] = {}
        """By tool, source, family, target and tenant."""
        self.forked()
        call_in_child(self.forked)

    def refused(
        self,
        rejection: Rejection,
        now: float | None = None,
        *,
        caller: Caller = NO_CALLER,
        probe_requested: bool = False,
        served_by: ServedBy = "none",
        fallback_tool: str | None = None,
        waits: bool = False,
    ) -> None:
        """Report one call refused at ``now``. With ``probe_requested`` its event asks the circuit's owner for a probe.

        With ``waits`` the call isn't refused, but waits for its turn.
        """
        if now is None:
            now = self._clock()
        refusal = (rejection, now, caller, served_by, fallback_tool)
        key = rejection.tool, rejection.source, rejection.family, rejection.target, caller.tenant
        known = self._tools.get(key) or self._tools.setdefault(key, _Refusals(now - REFUSAL_INTERVAL_S))
        if not probe_requested:  # without the lock: Python changes threads only at calls and loops
            known.count += not waits
            known.latest = refusal
            if now < known.last_sent + REFUSAL_INTERVAL_S:
                return
        with self._lock:
            count = known.take(now)
        if count or probe_requested or waits:
            self._emitter.emit(self._event(refusal, count, probe_requested), urgent=probe_requested)

    def sweep(self, *, everything: bool = False) -> None:
        """Send what has waited for its second, or ``everything``. Forget tools that weren't refused for a minute."""
        now = self._clock()
        ready: list[tuple[_Refusal, int]] = []
        with self._lock:
            for key, known in list(self._tools.items()):
                if known.latest is None:
                    if now >= known.last_sent + _FORGET_AFTER_S:
                        del self._tools[key]
                elif everything or now >= known.last_sent + REFUSAL_INTERVAL_S:
                    ready.append((known.latest, known.take(now)))
        for refusal, count in ready:
            _, refused_at, *_ = refusal
            ended_at = self._wall() - max(0.0, now - refused_at)
            self._emitter.emit(self._event(refusal, count, probe_requested=False), ended_at=ended_at)

    def _event(self, refusal: _Refusal, count: int, probe_requested: bool) -> Event:
        event = _event(refusal, count, probe_requested)
        rejection, _, caller, *_ = refusal
        asked = self.asked(rejection.tool, caller) if rejection.source == "pace" else None
        if asked is not None:
            number, credential = asked
            event.metadata, event.credential = {**(event.metadata or {}), "asked": number}, credential or None
        return event

    def forked(self) -> None:
        """Start, also in the child of a fork: the sums are the parent's."""
        self._lock = threading.RLock()  # a signal handler that runs while it is held may close the client
        self._tools.clear()


def _event(refusal: _Refusal, count: int, probe_requested: bool) -> Event:
    rejection, _, caller, served_by, fallback_tool = refusal
    metadata = {"refused": count, "refused_by": rejection.source, **_local_circuit(rejection)}
    family = rejection.family
    if family is not None:
        metadata["family"] = family.encode("utf-8", "replace").decode()
    return Event(
        tool_name=rejection.tool,
        status="rejected",
        generation=rejection.generation if family is None else None,
        family_generation=None if family is None else rejection.generation,
        served_by=served_by,
        fallback_tool=fallback_tool,
        tenant=caller.tenant,
        user_id=caller.user_id,
        session_id=caller.session_id,
        request_id=caller.request_id,
        target=caller.target or rejection.target or None,
        probe_requested=probe_requested,
        metadata=metadata,
    )


def _local_circuit(rejection: Rejection) -> dict[str, Any]:
    """Return what a record would say about a process's own circuit, which has none."""
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
        found["last_error"] = shown.encode("utf-8", "replace").decode()  # a lone surrogate would spoil all metadata
    return found
