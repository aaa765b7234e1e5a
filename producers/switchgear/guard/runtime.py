"""What all calls of one client share."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from switchgear.caching.cache import result_caches
from switchgear.caching.call_key import parameters_hash
from switchgear.caching.repeated_calls import DuplicateCounter
from switchgear.caching.single_flight import SingleFlight
from switchgear.classify.result import text_rule
from switchgear.fallback import NO_GROUP, Chains, FallbackMap, Group, StandIns
from switchgear.guard.attempts import Pending, PendingTurn
from switchgear.guard.caller_errors import CallerErrorLimit, CallerErrors, run_name
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import NO_CALLER, REPLACEABLE, Caller, Rejection
from switchgear.guard.targets import target_of
from switchgear.guard.time_limit import TimedThreads
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.sessions import session_of
from switchgear.tool_list import REFUSES, Condition
from switchgear_schemas.enums import ErrorClass, ServedBy
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.caller_errors import Arguments
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
        max_caller_errors: int | None = None,
        caller_errors_without_session: bool = False,
        outages_in_text: Collection[str] = (),
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
        self._clock_stands = self.clock is not time.monotonic
        """A test moves the clock, so nobody's turn comes by waiting."""
        self.complaints = BoundedLog(log, clock=self.clock)
        self.threads = TimedThreads(timed_threads)
        """For synchronous calls with a time limit."""
        self.cache = result_caches(self.clock)
        self.flights = SingleFlight()
        self.duplicates = DuplicateCounter(clock=self.clock)
        self.caller_errors = CallerErrors()
        self._max_caller_errors = max_caller_errors
        self.process_limit = None
        if max_caller_errors is not None and caller_errors_without_session:
            self.process_limit = CallerErrorLimit(self.caller_errors, "", max_caller_errors)
        """The limit for caller errors of the calls without a session. None: they aren't counted."""
        self.salted = decision.reporter.credentials.salted
        self._outages_in_text = outages_in_text
        self._make_lock()
        call_in_child(self._make_lock)

    def text_rule(self, tool: str) -> Callable[[str], ErrorClass | None]:
        """Return the rule for the texts of failed results of ``tool``: by the client's ``outages_in_text``."""
        return text_rule(tool, self._outages_in_text)

    # -- permits ------------------------------------------------------------------------------------------------------

    def ask(
        self,
        tool: str,
        caller: Caller = NO_CALLER,
        *,
        arguments: Arguments | None = None,
        target: Callable[[str], str] | None = None,
    ) -> Permit | Rejection | Pending:
        """Ask the session's limits, then the circuits. Pass a Pending to :meth:`wait` or :meth:`until`.

        If the call's arguments are known, ``arguments`` returns their hash, and ``target`` what they name by a policy's ``target``.
        """
        self.start()
        session = session_of(self)
        decision = self.decision if session is None else session.decision
        if target is not None or caller.target:
            caller = _aimed(decision.target_rule(tool), caller, target)
        limit = self.caller_error_limit(session, caller.session_id)
        if session is None and limit is None:
            return self.decision.acquire(tool, caller)
        refusal = None if session is None else session.check_limits(tool)
        if refusal is not None:
            return refusal
        run = run_name(tool, caller.target)
        trial = limit.admit(run, arguments) if limit is not None and limit.runs else None
        if isinstance(trial, Rejection):
            return trial
        answer: Permit | Rejection | Pending
        answer = decision.acquire(tool, caller if session is None else _in_session(session, caller))
        if isinstance(answer, Permit):
            return self._counted(answer, session, limit, trial)
        if limit is not None and trial is not None:  # a circuit refuses, or has still to decide
            limit.give_back(run, trial)
        return answer

    def wait(self, pending: Pending) -> Permit | Rejection:
        """Wait for the fleet's answer to a request, at most ``probe_wait``, or for the call's turn."""
        from concurrent.futures import wait  # noqa: PLC0415 - costs time that an import of switchgear must not

        answer: Permit | Rejection | Pending = pending
        while isinstance(answer, Pending):
            try:
                wait([answer.answer], timeout=self._wait_s(answer))
            except BaseException:
                self.decision.give_up(answer)
                raise
            answer = self._after_answer(answer)
        return answer

    async def until(self, pending: Pending) -> Permit | Rejection:
        """:meth:`wait` without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        answer: Permit | Rejection | Pending = pending
        while isinstance(answer, Pending):
            try:
                await asyncio.wait([asyncio.wrap_future(answer.answer)], timeout=self._wait_s(answer))
            except BaseException:
                self.decision.give_up(answer)
                raise
            answer = self._after_answer(answer)
        return answer

    def decide(self, tool: str, caller: Caller) -> Permit | Rejection:
        """:meth:`ask`, then :meth:`wait` if there is something to wait for."""
        answer = self.ask(tool, caller)
        return self.wait(answer) if isinstance(answer, Pending) else answer

    async def adecide(self, tool: str, caller: Caller) -> Permit | Rejection:
        """:meth:`ask`, then :meth:`until` if there is something to wait for."""
        await self.astart()
        answer = self.ask(tool, caller)
        return await self.until(answer) if isinstance(answer, Pending) else answer

    def acquire(
        self, tool: str, caller: Caller, given: Mapping[str, Any] | None, fallbacks: Collection[str]
    ) -> Permit | Rejection:
        """:meth:`decide` for ``tool``, then for those of its fallbacks that the caller can call, and report a refusal."""
        steps = self._acquiring(tool, caller, given, fallbacks)
        try:
            pending = next(steps)
            while True:
                pending = steps.send(self.wait(pending))
        except StopIteration as ended:
            return self._result(ended)

    async def aacquire(
        self, tool: str, caller: Caller, given: Mapping[str, Any] | None, fallbacks: Collection[str]
    ) -> Permit | Rejection:
        """:meth:`acquire` without blocking the event loop."""
        await self.astart()
        steps = self._acquiring(tool, caller, given, fallbacks)
        try:
            pending = next(steps)
            while True:
                pending = steps.send(await self.until(pending))
        except StopIteration as ended:
            return self._result(ended)

    def _acquiring(
        self, tool: str, caller: Caller, given: Mapping[str, Any] | None, fallbacks: Collection[str]
    ) -> Generator[Pending, Permit | Rejection, Permit | Rejection]:
        """Yield what to wait for and take the answer. Return the permit, or the refusal after reporting it."""
        arguments = None if given is None else functools.partial(self._hash_of, tool, given)
        target = None if given is None else functools.partial(_target_in, given)
        refusal: Rejection | None = None
        for name in (tool, *(self.chain(tool) if fallbacks else ())):
            if refusal is not None and (name not in fallbacks or self.is_open(name)):
                continue
            answer = self.ask(name, caller, arguments=arguments, target=target)
            if isinstance(answer, Pending):
                answer = yield answer
            if isinstance(answer, Permit):
                parameters_hash = arguments() if arguments is not None and self.sends_hash else None
                answer.describe("call" if refusal is None else "fallback", parameters_hash, arguments)
                if refusal is not None:
                    self.refused(refusal, served_by="fallback", fallback_tool=name, caller=caller)
                return answer
            if refusal is None:
                refusal = answer
                if answer.source not in REPLACEABLE:
                    break
        assert refusal is not None  # the first name is the tool
        return self.refused_permit(refusal, caller)

    def _hash_of(self, tool: str, given: Mapping[str, Any]) -> str | None:
        return self.attempt(f"parameters of {tool} have no hash", lambda: self.hash((), given))

    @staticmethod
    def _result(ended: StopIteration) -> Permit | Rejection:
        found: Permit | Rejection = ended.value
        return found

    def unguarded(self, tool: str, target: Callable[[str], str]) -> Permit | Rejection:
        """Return a permit without asking a circuit. A session's limits hold. For ``target``, see :meth:`ask`."""
        caller = _aimed(self.decision.target_rule(tool), NO_CALLER, target)
        permit = Permit(self.decision.reporter, tool, None, None, self.clock(), None, caller)
        session = session_of(self)
        return self._counted(permit, session, self.caller_error_limit(session))

    def is_open(self, tool: str, *, caller_errors: bool = True) -> bool:
        """Return whether a call would be refused now, in the running session. Takes nothing.

        Without ``caller_errors``, only limits and circuits count, which refuse every call.
        """
        self.start()
        session = session_of(self)
        limit = self.caller_error_limit(session) if caller_errors else None
        if limit is not None and limit.would_refuse(tool):
            return True
        if session is None:
            return self.decision.is_open(tool)
        return session.exhausted is not None or session.decision.is_open(tool, _in_session(session, NO_CALLER))

    def condition(self, tool: str, in_session: bool) -> Condition:
        """Return what the circuits say of a tool: those of the running session, or the process's."""
        session = session_of(self) if in_session else None
        if session is None:
            return self.decision.condition(tool)
        if session.exhausted is not None:
            return REFUSES
        found: Condition = session.decision.condition(tool, _in_session(session, NO_CALLER))
        return found

    def ask_ahead(self, tool: str, in_session: bool) -> bool:
        """Ask for a probe of a tool that no model is offered. Return whether there is nobody to ask."""
        session = session_of(self) if in_session else None
        if session is None:
            return self.decision.ask_ahead(tool)
        return session.decision.ask_ahead(tool, _in_session(session, NO_CALLER))

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
            caller = _in_session(session, caller)
        fleet.refusals.refused(refusal, caller=caller, served_by=served_by, fallback_tool=fallback_tool)

    def refused_permit(self, refusal: Rejection, caller: Caller) -> Rejection:
        """Report a refused permit. Return the refusal, with the first of the tool's fallbacks that isn't open.

        A guard calls that fallback itself. A caller who asks for a permit has to know its name.
        """
        if refusal.source in REPLACEABLE:
            for tool in self.chain(refusal.tool):
                if not self.is_open(tool):
                    refusal = msgspec.structs.replace(refusal, fallback=tool)
                    break
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

    def _wait_s(self, pending: Pending) -> float:
        if pending.wait_s is None:
            return self.probe_wait
        return 0.0 if self._clock_stands else pending.wait_s

    def _after_answer(self, pending: Pending) -> Permit | Rejection | Pending:
        if isinstance(pending, PendingTurn) and self._clock_stands:
            return self.decision.end_wait(pending.attempt, pending.view)
        session = session_of(self)
        limit = self.caller_error_limit(session, pending.attempt.caller.session_id)
        answer = self.decision.after_answer(pending)
        return self._counted(answer, session, limit) if isinstance(answer, Permit) else answer

    def caller_error_limit(self, session: Session | None, session_id: str | None = None) -> CallerErrorLimit | None:
        """Return the limit that a call counts in: of the running ``session``, else of the session that its caller names.

        None: its caller's errors aren't counted.
        """
        if session is not None:
            return session.caller_errors
        if session_id and self._max_caller_errors is not None:
            return CallerErrorLimit(self.caller_errors, session_id, self._max_caller_errors)
        return self.process_limit

    @staticmethod
    def _counted(
        permit: Permit, session: Session | None, limit: CallerErrorLimit | None, trial: str | None = None
    ) -> Permit | Rejection:
        """Count a permitted call in ``session``. Refused and waiting calls take no place from others."""
        counted_in = () if session is None else session.begin(permit.tool)
        if isinstance(counted_in, Rejection):
            permit.counts_in((), limit, trial)
            permit.release()
            return counted_in
        permit.counts_in(counted_in, limit, trial)
        return permit


def _aimed(rule: str | None, caller: Caller, target: Callable[[str], str] | None) -> Caller:
    """Return the caller with what the call is about. Without a ``rule`` in a policy no targets are kept apart."""
    if rule is None:
        return caller._replace(target="") if caller.target else caller
    found = caller.target or ("" if target is None else target(rule))
    return caller._replace(target=found) if found else caller


def _target_in(given: Mapping[str, Any], rule: str) -> str:
    return target_of(rule, given)


def _in_session(session: Session, caller: Caller) -> Caller:
    """Return ``caller`` with the session's ids in place of those that it lacks."""
    user_id, session_id, request_id, target, credential, tenant = caller
    if session_id is None:
        session_id = session.session_id
    return Caller(user_id or session.user_id, session_id, request_id, target, credential or session.credential, tenant)


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
