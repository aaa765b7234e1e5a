"""A call's turn: this process's share of a tool's rate limit, which the whole fleet keeps.

The fleet's record says what all processes may make and what they asked for. This process knows what it asked for itself. From both it
computes its share, in memory (:mod:`switchgear.pacing.share`). A call over it waits for its turn, or is refused with a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.follower.view import CircuitView, LimitView
from switchgear.guard.rejections import Caller, Rejection
from switchgear.pacing.share import Bucket, credit_of, share_of
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.circuit_ids import tool_circuit
from switchgear_schemas.pacing import DEMAND_S, rate_in_words

if TYPE_CHECKING:
    from switchgear.follower.base import Follower

AT_ONCE_S: Final = 1e-6
"""A wait that is not longer is none: sums of two clocks are off by so much."""
RECENT_S: Final = 120.0
"""A process that asked for a call within so long may have one call left over."""


class Turn(msgspec.Struct, eq=False):
    """The place of a call in its tool's bucket.

    Attributes:
        pace: The tool's.
        place: The place. 0: no limit was known.
        asked_at: When the call asked for it, in monotonic seconds.
        wait_s: The seconds until it comes, as things are.
        waited_s: How long the call has waited for it.
    """

    pace: ToolPace
    place: int
    asked_at: float
    wait_s: float = 0.0
    waited_s: float = 0.0

    def said_by_another(self, second: int) -> None:
        """Note that somebody else sends the event of the call. It counts as one call that was asked for."""
        pace = self.pace
        with pace.lock:
            if pace.unsaid:
                pace.unsaid -= 1
                pace.note(second, 1)


class PaceStatus(msgspec.Struct, frozen=True):
    """What this process does by the limits of one tool, of all credentials together.

    Attributes:
        share: Calls a second that it may make now. None: no limit is known.
        waiting: Calls that wait for their turn now.
        waited: Calls so far that waited for their turn, made or not.
        waited_s: How long they waited, in seconds.
        refused: Calls so far that were refused because their turn came too late.
    """

    share: float | None = None
    waiting: int = 0
    waited: int = 0
    waited_s: float = 0.0
    refused: int = 0


class ToolPace:
    """What this process knows of the pace of one tool, of the calls with one credential or of all others.

    ``credential`` is the one whose limit it is; empty: of all others.
    """

    __slots__ = (
        *("asked_at", "bucket", "credential", "demand", "limit", "lock", "processes", "refused", "stale", "unsaid"),
        *("waited", "waited_s", "waiting"),
    )

    def __init__(self, credential: str = "") -> None:
        self.credential = credential
        self.lock = threading.RLock()
        self.bucket: Bucket | None = None
        self.limit: LimitView | None = None
        """That of the last record, by which the bucket runs."""
        self.stale = False
        """Whether it runs by less, because that record may be outdated."""
        self.processes = 1
        self.demand: dict[int, int] = {}
        """Calls that this process said it asked for, by second of the broker's clock."""
        self.unsaid = 0
        """Those that it hasn't said yet."""
        self.asked_at = -math.inf
        """When a call was last asked for."""
        self.waiting: dict[Turn, Future[None]] = {}
        """Done with the next record, in the order of the calls that wait."""
        self.waited = self.refused = 0
        self.waited_s = 0.0

    def say(self, second: int) -> int:
        """Return how many calls were asked for since this was last called, to be sent in an event now."""
        count, self.unsaid = self.unsaid, 0
        if count:
            self.note(second, count)
        return count

    def note(self, second: int, count: int) -> None:
        """Note that an event of this second says so many calls."""
        self.demand[second] = self.demand.get(second, 0) + count
        while (oldest := next(iter(self.demand))) < second - RECENT_S:
            del self.demand[oldest]

    def follow(self, view: CircuitView, now: float, ahead: float, *, stale: bool) -> None:
        """Run the bucket by the newest record. ``ahead`` are the seconds of the wall clock at 0 of the monotonic one."""
        limit = view.limit_of(self.credential)
        if limit is None:
            self.bucket = self.limit = None
            return
        if limit is self.limit and not stale and not self.stale:
            return
        until, processes = int(limit.until), view.active_processes or 1
        asked = limit.asked / DEMAND_S
        own = sum(count for second, count in self.demand.items() if until - DEMAND_S <= second < until)
        share = share_of(limit.granted, asked, own / DEMAND_S, processes)
        if stale:
            share = min(share, limit.granted / processes)
        recent = now - self.asked_at < RECENT_S
        credit = credit_of(limit.granted, asked, processes, share, limit.period_s, recent=recent)
        if self.bucket is None:
            self.bucket = Bucket(now, share, min(1.0, credit))
        resumes = 0.0 if limit.paused_until is None else limit.paused_until - ahead
        self.bucket.set_rate(now, share, credit, resumes)
        self.limit, self.processes, self.stale = limit, processes, stale

    def wake(self) -> None:
        """Let those that wait look again."""
        waiting, self.waiting = self.waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_result(None)


class Turns:
    """The turns of all tools of the fleet whose limits are kept. Thread-safe.

    ``clock`` returns monotonic seconds, ``wall`` the broker's time.
    """

    def __init__(self, follower: Follower, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._follower = follower
        self._clock = clock
        self._wall = wall
        self.paces: dict[str, dict[str, ToolPace]] = {}
        """By tool, those whose limits were to be kept at some time, and by credential."""
        self.by_credential = False
        """Credentials have the same hash in all processes."""
        call_in_child(self._forked)

    def on_view(self, view: CircuitView) -> None:
        """Take note of a new record of a tool's own circuit."""
        if view.keeps_pace and view.tool_name not in self.paces:
            self.paces[view.tool_name] = {}
        for pace in list(self.paces.get(view.tool_name, {}).values()):
            with pace.lock:
                self._follow(pace, view)
                pace.wake()

    def ask(self, view: CircuitView, caller: Caller) -> Turn:
        """Ask for the turn of a call. It has come if no limit is known."""
        pace = self._pace(view, self.credential_of(caller))
        with pace.lock:
            self._follow(pace, view)
            now = pace.asked_at = self._clock()
            pace.unsaid += 1
            if pace.bucket is None:
                return Turn(pace, 0, now)
            turn = Turn(pace, pace.bucket.take(now), now)
            turn.wait_s = pace.bucket.wait_s(now, turn.place, AT_ONCE_S)
            return turn

    def look(self, turn: Turn, view: CircuitView | None) -> float:
        """Return the seconds until a turn, 0 if it has come or needs to come no more."""
        pace = turn.pace
        with pace.lock:
            pace.waiting.pop(turn, None)
            if view is None or not view.keeps_pace:
                return 0.0
            self._follow(pace, view)
            turn.waited_s = self._clock() - turn.asked_at
            now, bucket = self._clock(), pace.bucket
            turn.wait_s = 0.0 if bucket is None else bucket.wait_s(now, turn.place, AT_ONCE_S)
            return turn.wait_s

    def may_wait(self, turn: Turn, view: CircuitView) -> float:
        """Return how many seconds a call may still wait for its turn, 0 if it is to be refused.

        A turn that comes too late is no turn. But while the tool isn't used up, the next record gives the process more.
        """
        limit = view.limit_of(turn.pace.credential)
        left = turn.asked_at + view.pace_wait_s - self._clock()
        if limit is None or (turn.wait_s > left and (limit.asked >= limit.granted * DEMAND_S or limit.paused_until)):
            return 0.0
        return max(0.0, left)

    def waiter(self, turn: Turn) -> Future[None]:
        """Return a future that is done with the next record."""
        found: Future[None] = Future()
        with turn.pace.lock:
            turn.pace.waiting[turn] = found
        return found

    def cancelled(self, turn: Turn) -> None:
        """Let those that wait behind a cancelled call look again, which has left. If it was refused instead, the next record does."""
        with turn.pace.lock:
            turn.pace.wake()

    def leave(self, turn: Turn) -> None:
        """Give the turn of a call back that isn't made."""
        pace = turn.pace
        with pace.lock:
            pace.waiting.pop(turn, None)
            if pace.bucket is not None and turn.place:
                pace.bucket.leave(turn.place)

    def waited(self, turn: Turn) -> None:
        """Count a call that waits no more."""
        if turn.waited_s > 0:
            with turn.pace.lock:
                turn.pace.waited += 1
                turn.pace.waited_s += turn.waited_s

    def refused(self, turn: Turn) -> None:
        """Count a call whose turn comes too late."""
        with turn.pace.lock:
            turn.pace.refused += 1

    def status(self) -> dict[str, PaceStatus]:
        """Return what this process does now, by tool."""
        return {tool: _status(list(paces.values())) for tool, paces in list(self.paces.items())}

    def say(self, pace: ToolPace) -> int:
        """Return how many calls an event says now that were asked for."""
        with pace.lock:
            return pace.say(int(self._wall()))

    def asked(self, tool: str, caller: Caller) -> tuple[int, str] | None:
        """Return the same of the calls like one of ``caller``, with their credential. None: nobody wants to know."""
        view, credential = self._follower.table.views.get(tool_circuit(tool)), self.credential_of(caller)
        if view is None or tool not in self.paces:
            return None
        return self.say(self._pace(view, credential)), credential

    def credential_of(self, caller: Caller) -> str:
        """Return the credential by which the fleet may know a call. Empty if there is none."""
        return caller.credential if self.by_credential else ""

    def _pace(self, view: CircuitView, credential: str) -> ToolPace:
        """Return the pace of the calls with a credential: its own, if the record has a limit of it."""
        limit, paces = view.limit_of(credential), self.paces[view.tool_name]
        key = "" if limit is None else limit.credential
        return paces.get(key) or paces.setdefault(key, ToolPace(key))

    def _follow(self, pace: ToolPace, view: CircuitView) -> None:
        age_s, now = self._follower.age_s(), self._clock()
        stale = age_s is None or age_s >= self._follower.stale_after_s
        pace.follow(view, now, self._wall() - now, stale=stale)

    def _forked(self) -> None:
        """In the child of a fork: the calls that wait are the parent's, and so is what it asked for."""
        for paces in self.paces.values():
            paces.clear()


def _status(paces: list[ToolPace]) -> PaceStatus:
    buckets = [bucket for pace in paces if (bucket := pace.bucket) is not None]
    return PaceStatus(
        sum(bucket.rate for bucket in buckets) if buckets else None,
        sum(len(bucket.queue) for bucket in buckets),
        sum(pace.waited for pace in paces),
        sum(pace.waited_s for pace in paces),
        sum(pace.refused for pace in paces),
    )


def refusal_of(view: CircuitView, turn: Turn) -> Rejection:
    """Return the refusal of a call whose turn comes too late."""
    limit = view.limit_of(turn.pace.credential)
    reason = "rate limit"
    if limit is not None:
        rate = rate_in_words(limit.rate, limit.period_s)
        reason = f"rate limit: {rate}, shared by {view.active_processes or 1} processes"
    return Rejection(view.tool_name, "closed", "pace", reason, turn.wait_s, generation=view.generation)
