"""What all calls of one client share."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from switchgear.caching.cache import result_caches
from switchgear.caching.call_key import parameters_hash
from switchgear.caching.repeated_calls import DuplicateCounter
from switchgear.caching.single_flight import SingleFlight
from switchgear.fallback import NO_GROUP, Chains, FallbackMap, Group, StandIns
from switchgear.guard.decision import CircuitDecision, PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.guard.time_limit import TimedThreads
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.sessions import session_of
from switchgear_schemas.enums import ServedBy
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.sessions import Session

log: Final = logging.getLogger("switchgear.guard")
T = TypeVar("T")


class Runtime:
    """Asks for permits, reports refusals, and keeps what the guards' options need.

    ``start`` starts the client at its first call, which may wait. ``astart`` does so without blocking the event loop.
    """

    def __init__(
        self,
        decision: CircuitDecision,
        start: Callable[[], None],
        astart: Callable[[], Awaitable[None]],
        *,
        fallbacks: Chains | None,
        probe_wait: float,
        parameters_key: bytes | None,
        timed_threads: int,
    ) -> None:
        self.decision = decision
        self.start = start
        self.astart = astart
        self.started = False
        """Calls need not call :attr:`start` any more. The client sets it."""
        self.fallbacks = FallbackMap(fallbacks)
        self.hooks = decision.reporter.hooks
        self.probe_wait = probe_wait
        self.sends_hash = parameters_key is not None
        self.hash: Callable[..., str] = functools.partial(
            parameters_hash, os.urandom(32) if parameters_key is None else parameters_key
        )
        self.stand_ins = StandIns()
        self.clock = decision.clock
        self.complaints = BoundedLog(log, clock=self.clock)
        self.threads = TimedThreads(timed_threads)
        """For synchronous calls with a time limit."""
        self.cache = result_caches(self.clock)
        self.flights = SingleFlight()
        self.duplicates = DuplicateCounter(clock=self.clock)
        self._make_lock()
        call_in_child(self._make_lock)

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
        permit = Permit(self.decision.reporter, tool, None, None, self.clock(), None)
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
            if named is not None:
                refusal = msgspec.structs.replace(refusal, fallback=named)
        self.refused(refusal, caller=caller)
        return refusal

    def chain(self, tool: str, own: tuple[str, ...] = (), group: Group = NO_GROUP) -> tuple[str, ...]:
        """Return the fallback tools of ``tool`` in order; those of the fleet's policy if it has no chain here."""
        return self.fallbacks.chain(tool, own, group) or self.decision.fleet_fallback(tool)

    def attempt(self, subject: str, function: Callable[[], T]) -> T | None:
        """Call a user's function. If it fails, log the ``subject`` and return None: the call must go on."""
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - it may fail in any way
            self.complaints.warning(subject, error)
            return None

    def _make_lock(self) -> None:
        """Make the lock, again in the child of a fork: another thread of the parent may hold it."""
        self.session_lock = threading.RLock()  # a forgotten call may be collected while its thread holds it

    def _after_answer(self, pending: PendingProbe) -> Permit | Rejection:
        answer = self.decision.after_answer(pending)
        session = session_of(self)
        return answer if session is None else _counted(answer, session)


def _counted(answer: Permit | Rejection, session: Session) -> Permit | Rejection:
    """Count a permitted call in ``session``. Refused and waiting calls take no place from others."""
    if isinstance(answer, Rejection):
        return answer
    counted_in = session.begin(answer.tool)
    if isinstance(counted_in, Rejection):
        answer.release()
        return counted_in
    answer.sessions = counted_in
    return answer


class PermitContext:
    """``with gear.permit("tool") as permit:`` or ``async with``. Made by ``gear.permit``.

    If the block ends well, that is reported as a success; an exception is reported as a failure. You can report more within
    the block: the first report counts. Use one context for one call at a time.

    Raises:
        CircuitOpenError: On entering: the circuit or the session refuses the call.
        SwitchgearError: On entering a block that was entered and not left.
    """

    def __init__(self, runtime: Runtime, tool: str, caller: Caller) -> None:
        self._runtime = runtime
        self._tool = tool
        self._caller = caller
        self._permit: Permit | None = None

    def __enter__(self) -> Permit:
        return self._entered(self._runtime.decide(self._tool, self._caller))

    async def __aenter__(self) -> Permit:
        return self._entered(await self._runtime.adecide(self._tool, self._caller))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permit, self._permit = self._permit, None
        if permit is None:  # it was never entered
            return
        if error is None:
            permit.success()
        else:
            permit.failure(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _entered(self, answer: Permit | Rejection) -> Permit:
        if isinstance(answer, Rejection):
            raise self._runtime.refused_permit(answer, self._caller).error()
        if self._permit is not None:
            answer.release()
            raise SwitchgearError(
                f"This permit for {self._tool} is in use: it is for one call at a time.",
                hint=f'Call gear.permit("{self._tool}") again for another one.',
            )
        self._permit = answer
        return answer
