"""Runtime: what the calls of one client share."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from switchgear.caching.parameters_hash import parameters_hash
from switchgear.fallback.chains import Chains, FallbackMap, reached
from switchgear.fallback.registry import NO_GROUP, Group, StandIns
from switchgear.guard.decision import Gate, PendingProbe
from switchgear.guard.permits import NO_CALLER, Caller, Permit
from switchgear.guard.rejections import Rejection
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.sessions.session import session_of
from switchgear_schemas.enums import ServedBy

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear.caching.cache import Stores
    from switchgear.guard.timed_threads import TimedThreads
    from switchgear.sessions.session import Session
    from switchgear.telemetry.dispatch import HookList

log: Final = logging.getLogger("switchgear.guard")


class Runtime:
    """Asks the session and the gate, reports refusals, and keeps what options need: stand-ins, chains, stores, threads.

    Args:
        gate: Decides.
        start: Starts the client at its first call, and may wait then; afterwards it costs nothing.
        astart: The same without blocking the event loop.
        fallbacks: The client's chains.
        hooks: Who is told of refusals; None for nobody.
        probe_wait: Longest wait for a probe lease, in seconds.
        parameters_key: Of the hash that goes with events; None for no hash on them.
        timed_threads: Most threads for synchronous calls with a time limit.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        gate: Gate,
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
        call_in_child(self._reset_in_child)
        self.gate = gate
        self.start = start
        self.astart = astart
        self.started = False
        """Calls need not call :attr:`start` any more. The client sets it."""
        self.fallbacks = FallbackMap()
        self.routed: set[str] = set()
        """Tools that have a fallback here: a refusal doesn't end their calls."""
        self.map_fallbacks(fallbacks or {})
        self.hooks = hooks
        self.probe_wait = probe_wait
        self.sends_hash = parameters_key is not None
        self.hash: Callable[..., str] = functools.partial(
            parameters_hash, os.urandom(32) if parameters_key is None else parameters_key
        )
        self.stand_ins = StandIns()
        self.complaints = BoundedLog(log, clock=clock)
        self.clock = clock
        self.session_lock = threading.RLock()
        """See :class:`~switchgear.sessions.session.Owner`. A forgotten call may be collected while its thread holds it."""
        self._lock = threading.Lock()
        self._timed_threads = timed_threads
        self._threads: TimedThreads | None = None
        self._stores: Stores | None = None

    # -- deciding -----------------------------------------------------------------------------------------------------

    def ask(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection | PendingProbe:
        """The session's limits, then both breakers; a permit takes one of the session's places.

        An :class:`PendingProbe` is to be waited for, by :meth:`wait` or :meth:`until`.
        """
        self.start()
        session = session_of(self)
        if session is None:
            return self.gate.acquire(tool, user_id, session_id, request_id)
        refusal = session.check_limits(tool)
        if refusal is not None:
            return refusal
        answer: Permit | Rejection | PendingProbe = session.decision.acquire(
            tool, user_id or session.user_id, session.session_id if session_id is None else session_id, request_id
        )
        return answer if isinstance(answer, PendingProbe) else _in_session(answer, session)

    def wait(self, asking: PendingProbe) -> Permit | Rejection:
        """Block until the fleet has said something, at most ``probe_wait``."""
        from concurrent.futures import wait  # noqa: PLC0415 - asyncio's kin: costs time that an import must not

        try:
            wait([asking.answer], timeout=self.probe_wait)
        except BaseException:
            self.gate.give_up(asking)
            raise
        return self._asked(asking)

    async def until(self, asking: PendingProbe) -> Permit | Rejection:
        """:meth:`wait` without blocking the event loop."""
        try:
            await _done(asking.answer, self.probe_wait)
        except BaseException:
            self.gate.give_up(asking)
            raise
        return self._asked(asking)

    def decide(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        """:meth:`ask` and, where it must be, :meth:`wait`; reports nothing."""
        answer = self.ask(tool, user_id, session_id, request_id)
        return self.wait(answer) if isinstance(answer, PendingProbe) else answer

    async def adecide(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        """:meth:`ask` and, where it must be, :meth:`until`; reports nothing."""
        await self.astart()
        answer = self.ask(tool, user_id, session_id, request_id)
        return await self.until(answer) if isinstance(answer, PendingProbe) else answer

    def unguarded(self, tool: str) -> Permit | Rejection:
        """A permit that no circuit was asked for: when every fallback is open too, the primary is tried all the same."""
        permit = self.gate.unguarded(tool)
        session = session_of(self)
        return permit if session is None else _in_session(permit, session)

    # -- telling ------------------------------------------------------------------------------------------------------

    def refused(
        self,
        refusal: Rejection,
        *,
        served_by: ServedBy = "none",
        fallback_tool: str | None = None,
        caller: Caller = NO_CALLER,
    ) -> None:
        """Notify the hooks and the fleet of one refused call, and of what served its caller instead."""
        hooks = self.hooks
        if hooks is not None:
            hooks.on_rejected(refusal)
            if served_by == "fallback" and fallback_tool is not None:
                hooks.on_fallback(refusal, fallback_tool)
            elif served_by == "cache":
                hooks.on_cached(refusal.tool, refusal)
        fleet = self.gate.fleet
        if fleet is None:
            return
        session = session_of(self)
        if session is not None:
            user_id, session_id, request_id = caller
            caller = user_id or session.user_id, session_id or session.session_id, request_id
        fleet.refusals.refused(refusal, caller=caller, served_by=served_by, fallback_tool=fallback_tool)

    # -- what options need --------------------------------------------------------------------------------------------

    @property
    def threads(self) -> TimedThreads:
        """For synchronous calls with a time limit; made at first need."""
        with self._lock:
            if self._threads is None:
                from switchgear.guard.timed_threads import TimedThreads  # noqa: PLC0415 - few need it

                self._threads = TimedThreads(self._timed_threads)
            return self._threads

    @property
    def stores(self) -> Stores:
        """Caches, single flights and the watch for duplicates; made at first need."""
        found = self._stores
        if found is None:
            with self._lock:
                found = self._stores
                if found is None:
                    from switchgear.caching.cache import Stores  # noqa: PLC0415 - few need it

                    found = self._stores = Stores(self.clock)
        return found

    def map_fallbacks(self, chains: Chains) -> None:
        """Set the chain of each tool that ``chains`` names."""
        self.fallbacks.update(chains)
        self.routed.update(chains)

    def is_open(self, tool: str) -> bool:
        """Would a call be refused now, in the running session? Takes nothing, asks nobody."""
        self.start()
        session = session_of(self)
        if session is None:
            return self.gate.is_open(tool)
        return session.exhausted is not None or session.decision.is_open(tool, session.user_id, session.session_id)

    def chain(self, tool: str, own: tuple[str, ...], group: Group = NO_GROUP) -> tuple[str, ...]:
        """Fallback tools of ``tool`` in order: the guard's ``own`` or the map's, each with its own after it; else the fleet's."""
        found = tuple(self._reached(tool, own, group)) if own else self.fallbacks.chain(tool)
        return found or self.gate.fleet_fallback(tool)

    def named_by(self, tool: str, own: tuple[str, ...], name: str, group: Group) -> str:
        """The tool that names the fallback ``name``, in the chain of ``tool``; ``tool`` itself where that is the fleet's."""
        return self._reached(tool, own, group).get(name, tool)

    def session_left(self, session_id: str) -> None:
        """A session has ended: its calls are no duplicates of those to come."""
        if self._stores is not None:
            self._stores.duplicates.forget(session_id)

    def _reset_in_child(self) -> None:
        self._lock, self.session_lock = threading.Lock(), threading.RLock()

    def _reached(self, tool: str, own: tuple[str, ...], group: Group) -> dict[str, str]:
        def direct(name: str) -> tuple[str, ...]:
            found = own if name == tool else group[name].plan.options.chain if name in group else ()
            return found or self.fallbacks.direct(name)

        return reached(tool, direct)

    def _asked(self, asking: PendingProbe) -> Permit | Rejection:
        answer = self.gate.after_answer(asking)
        session = session_of(self)
        return answer if session is None else _in_session(answer, session)


def _in_session(answer: Permit | Rejection, session: Session) -> Permit | Rejection:
    """A place is taken after the circuit's answer: what it refuses, or waits for, takes none from the others."""
    if isinstance(answer, Rejection):
        return answer
    refusal = session.begin(answer.tool)
    if refusal is None:
        answer.sessions = session.nested()
        return answer
    answer.release()
    return refusal


async def _done(answer: Future[None], limit: float) -> None:
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    await asyncio.wait([asyncio.wrap_future(answer)], timeout=limit)
