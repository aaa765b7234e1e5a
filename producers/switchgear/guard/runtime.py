"""What all calls of one client share."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.caching.parameters_hash import parameters_hash
from switchgear.fallback.chains import Chains, FallbackMap
from switchgear.fallback.registry import NO_GROUP, Group, StandIns
from switchgear.guard.decision import CircuitDecision, PendingProbe
from switchgear.guard.permits import NO_CALLER, Caller, Permit
from switchgear.guard.rejections import Rejection
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.sessions.session import session_of
from switchgear_schemas.enums import ServedBy

if TYPE_CHECKING:
    from switchgear.caching.cache import Stores
    from switchgear.guard.timed_threads import TimedThreads
    from switchgear.sessions.session import Session
    from switchgear.telemetry.dispatch import HookList

log: Final = logging.getLogger("switchgear.guard")


class Runtime:
    """Asks for permits, reports refusals, and keeps what the guards' options need.

    Args:
        decision: Decides about calls outside of sessions.
        start: Starts the client at its first call, which may wait; later calls cost nothing.
        astart: The same without blocking the event loop.
        fallbacks: The client's chains of fallback tools.
        hooks: Notified of refusals; None without any.
        probe_wait: Longest wait for a probe lease, in seconds.
        parameters_key: Key of the hash on events; None to send no hash.
        timed_threads: Most threads for synchronous calls with a time limit.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        decision: CircuitDecision,
        start: Callable[[], None],
        astart: Callable[[], Awaitable[None]],
        *,
        fallbacks: Chains | None,
        hooks: HookList | None,
        probe_wait: float,
        parameters_key: bytes | None,
        timed_threads: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.decision = decision
        self.start = start
        self.astart = astart
        self.started = False
        """Calls need not call :attr:`start` any more. The client sets it."""
        self.fallbacks = FallbackMap(fallbacks)
        self.hooks = hooks
        self.probe_wait = probe_wait
        self.sends_hash = parameters_key is not None
        self.hash: Callable[..., str] = functools.partial(
            parameters_hash, os.urandom(32) if parameters_key is None else parameters_key
        )
        self.stand_ins = StandIns()
        self.complaints = BoundedLog(log, clock=clock)
        self.clock = clock
        self._timed_threads = timed_threads
        self._threads: TimedThreads | None = None
        self._stores: Stores | None = None
        self._make_locks()
        call_in_child(self._make_locks)

    # -- permits ------------------------------------------------------------------------------------------------------

    def ask(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection | PendingProbe:
        """Ask the session's limits, then the circuits. Pass a PendingProbe to :meth:`wait` or :meth:`until`."""
        self.start()
        session = session_of(self)
        if session is None:
            return self.decision.acquire(tool, user_id, session_id, request_id)
        refusal = session.check_limits(tool)
        if refusal is not None:
            return refusal
        answer: Permit | Rejection | PendingProbe = session.decision.acquire(
            tool, user_id or session.user_id, session.session_id if session_id is None else session_id, request_id
        )
        return answer if isinstance(answer, PendingProbe) else _counted(answer, session)

    def wait(self, pending: PendingProbe) -> Permit | Rejection:
        """Wait for the fleet's answer, at most ``probe_wait``."""
        from concurrent.futures import wait  # noqa: PLC0415 - costs time that an import of switchgear must not

        try:
            wait([pending.answer], timeout=self.probe_wait)
        except BaseException:
            self.decision.give_up(pending)
            raise
        return self._after_answer(pending)

    async def until(self, pending: PendingProbe) -> Permit | Rejection:
        """:meth:`wait` without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        try:
            await asyncio.wait([asyncio.wrap_future(pending.answer)], timeout=self.probe_wait)
        except BaseException:
            self.decision.give_up(pending)
            raise
        return self._after_answer(pending)

    def decide(self, tool: str, caller: Caller) -> Permit | Rejection:
        """:meth:`ask`, then :meth:`wait` if there is something to wait for."""
        answer = self.ask(tool, *caller)
        return self.wait(answer) if isinstance(answer, PendingProbe) else answer

    async def adecide(self, tool: str, caller: Caller) -> Permit | Rejection:
        """:meth:`ask`, then :meth:`until` if there is something to wait for."""
        await self.astart()
        answer = self.ask(tool, *caller)
        return await self.until(answer) if isinstance(answer, PendingProbe) else answer

    def unguarded(self, tool: str) -> Permit | Rejection:
        """Return a permit without asking a circuit. A session's limits hold."""
        permit = self.decision.unguarded(tool)
        session = session_of(self)
        return permit if session is None else _counted(permit, session)

    def is_open(self, tool: str) -> bool:
        """Return whether a call would be refused now, in the running session. Takes nothing."""
        self.start()
        session = session_of(self)
        if session is None:
            return self.decision.is_open(tool)
        return session.exhausted is not None or session.decision.is_open(tool, session.user_id, session.session_id)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def refused(
        self,
        refusal: Rejection,
        *,
        served_by: ServedBy = "none",
        fallback_tool: str | None = None,
        caller: Caller = NO_CALLER,
    ) -> None:
        """Notify the hooks and the fleet of a refused call, and of what served its caller instead."""
        hooks = self.hooks
        if hooks is not None:
            hooks.on_rejected(refusal)
            if served_by == "fallback" and fallback_tool is not None:
                hooks.on_fallback(refusal, fallback_tool)
            elif served_by == "cache":
                hooks.on_cached(refusal.tool, refusal)
        fleet = self.decision.fleet
        if fleet is None:
            return
        session = session_of(self)
        if session is not None:
            user_id, session_id, request_id = caller
            caller = user_id or session.user_id, session_id or session.session_id, request_id
        fleet.refusals.refused(refusal, caller=caller, served_by=served_by, fallback_tool=fallback_tool)

    def refused_permit(self, refusal: Rejection, caller: Caller) -> Rejection:
        """Report a refused permit. Return the refusal, with the first of the tool's fallbacks that isn't open.

        A guard calls that fallback itself. A caller who asks for a permit has to know its name.
        """
        if refusal.source in {"local", "fleet"}:
            named = next((tool for tool in self.chain(refusal.tool) if not self.is_open(tool)), None)
            if named is not None and named != refusal.fallback:
                refusal = msgspec.structs.replace(refusal, fallback=named)
        self.refused(refusal, caller=caller)
        return refusal

    def chain(self, tool: str, own: tuple[str, ...] = (), group: Group = NO_GROUP) -> tuple[str, ...]:
        """Return the fallback tools of ``tool`` in order; those of the fleet's policy if it has no chain here."""
        return tuple(self.fallbacks.chain(tool, own, group)) or self.decision.fleet_fallback(tool)

    # -- what options need --------------------------------------------------------------------------------------------

    @property
    def threads(self) -> TimedThreads:
        """The threads of synchronous calls with a time limit."""
        with self._lock:
            if self._threads is None:
                from switchgear.guard.timed_threads import TimedThreads  # noqa: PLC0415 - few need it

                self._threads = TimedThreads(self._timed_threads)
            return self._threads

    @property
    def stores(self) -> Stores:
        """The caches, single flights and counts of repeated calls."""
        found = self._stores
        if found is None:
            with self._lock:
                found = self._stores
                if found is None:
                    from switchgear.caching.cache import Stores  # noqa: PLC0415 - few need it

                    found = self._stores = Stores(self.clock)
        return found

    def session_left(self, session_id: str) -> None:
        """Forget the repeated calls of a session that has ended."""
        if self._stores is not None:
            self._stores.duplicates.forget(session_id)

    def _make_locks(self) -> None:
        """Make the locks, again in the child of a fork: another thread of the parent may hold them."""
        self._lock = threading.Lock()
        self.session_lock = threading.RLock()  # a forgotten call may be collected while its thread holds it

    def _after_answer(self, pending: PendingProbe) -> Permit | Rejection:
        answer = self.decision.after_answer(pending)
        session = session_of(self)
        return answer if session is None else _counted(answer, session)


def _counted(answer: Permit | Rejection, session: Session) -> Permit | Rejection:
    """Count a permitted call in ``session``. Refused and waiting calls take no place from others."""
    if isinstance(answer, Rejection):
        return answer
    refusal = session.begin(answer.tool)
    if refusal is None:
        answer.sessions = session.nested()
        return answer
    answer.release()
    return refusal
