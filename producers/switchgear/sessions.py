"""Sessions: fresh circuits for one run of an agent, and limits across all of its tools."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from switchgear import arguments
from switchgear.guard.caller_errors import CallerErrorLimit
from switchgear.guard.rejections import Caller, Rejection
from switchgear.model_text import name_for_model
from switchgear.usage import NOTHING, Usage, usage_of
from switchgear_schemas.enums import CircuitState

if TYPE_CHECKING:
    from switchgear.caching.repeated_calls import DuplicateCounter
    from switchgear.guard.caller_errors import CallerErrors
    from switchgear.guard.local_circuits import LocalBreakers

session_stack: Final[ContextVar[tuple[Session, ...] | None]] = ContextVar("switchgear_sessions", default=None)
"""The sessions that the running task or thread has entered, of all clients, the innermost last. None outside of sessions.

``asyncio`` tasks and ``asyncio.to_thread`` inherit it. A bare thread starts with none.
"""


class Owner(Protocol):
    """The client of a session."""

    session_lock: threading.RLock
    """Held while the counts of its sessions change: nested sessions count a call all at once, or not at all."""

    duplicates: DuplicateCounter
    """The repeated calls of its sessions."""
    caller_errors: CallerErrors
    """The errors of its sessions' callers."""


class Decision(Protocol):
    """Decide about the calls of a session, by its ``local`` circuits and the fleet's."""

    local: LocalBreakers

    def acquire(self, tool: str, caller: Caller) -> Any:
        """Return a permit, a rejection or a pending probe."""

    def is_open(self, tool: str, caller: Caller) -> bool:
        """Return whether a call would be refused now."""

    def condition(self, tool: str, caller: Caller) -> Any:
        """Return what the circuits say of a tool, for a list that a model sees."""

    def ask_ahead(self, tool: str, caller: Caller) -> bool:
        """Ask for a probe of a tool that no model is offered."""

    def target_rule(self, tool: str) -> str | None:
        """Return the ``target`` of the tool's policy."""


class Session:
    """One run of an agent. Make it with ``gear.session(...)`` and enter it with ``with`` or ``async with``.

    Within it, the client's calls go through the session's own circuits, which start closed, and through the fleet's. Their
    events carry its ``session_id`` and ``user_id``. The limits count all of its tools together, so that switching tools
    doesn't evade them. Only ``max_caller_errors`` counts each tool alone. Limits are compared when a call begins: calls that
    run at that moment may exceed them.

    Thread-safe. You can enter a session in several threads and tasks at once, and again after you left it. If you enter it
    within another session of the same client, its calls count against that one's limits too.

    Args:
        session_id: On every event. 1 to 256 characters.
        owner: The client that it belongs to. Calls of other clients aren't in this session.
        decision: Decides about its calls.
        user_id: On every event. At most 256 characters.
        credential: Salted hash of what its calls sign in with. Empty: the session stands for it.
        token_budget: Refuse calls after this many tokens, reported by the tools or by :meth:`spend`.
        max_failures: Refuse calls after this many failed calls. Cancelled calls and refusals by a policy don't count.
        max_calls: Refuse calls after this many calls.
        max_caller_errors: Refuse a tool after this many errors of its caller in a row. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(
        self,
        session_id: str,
        *,
        owner: Owner,
        decision: Decision,
        user_id: str = "",
        credential: str = "",
        token_budget: int | None = None,
        max_failures: int | None = None,
        max_calls: int | None = None,
        max_caller_errors: int | None = None,
    ) -> None:
        arguments.identifier("session_id", session_id, "Leave it out to get a generated one.", least=1)
        arguments.identifier("user_id", user_id, "Pass str(user_id).")
        limits = {
            "token_budget": token_budget,
            "max_failures": max_failures,
            "max_calls": max_calls,
            "max_caller_errors": max_caller_errors,
        }
        for name, limit in limits.items():
            if limit is not None:
                arguments.whole(name, limit)
        self.session_id = session_id
        self.user_id = user_id
        self.credential = credential
        self.owner = owner
        self.decision = decision
        self.caller_errors = (
            None if max_caller_errors is None else CallerErrorLimit(owner.caller_errors, session_id, max_caller_errors)
        )
        self._limits = (token_budget, max_failures, max_calls)
        self._calls = self._failures = self._refused = 0
        self._spent = Usage()
        self._entered = 0
        """The number of tasks and threads that are in it."""

    def __enter__(self) -> Self:
        session_stack.set((*(session_stack.get() or ()), self))
        with self.owner.session_lock:
            self._entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack = session_stack.get() or ()
        if self not in stack:  # entered in another task than this one
            return
        # Two generators that take turns leave in the order in which they end, so it isn't always the last one.
        last = len(stack) - 1 - stack[::-1].index(self)
        session_stack.set(stack[:last] + stack[last + 1 :] or None)
        with self.owner.session_lock:
            self._entered -= 1
            left_by_all = self._entered == 0
        if left_by_all:
            self.owner.duplicates.forget(self.session_id)
            self.owner.caller_errors.forget(self.session_id)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- for callers --------------------------------------------------------------------------------------------------

    def spend(self, usage: Usage | int) -> None:
        """Count tokens (and cost) that no tool reports, such as the model's own between two calls.

        Raises:
            SwitchgearError: It is not a usage, or is negative.
        """
        spent = usage_of(usage)
        for session in self.nested():
            session.ended(spent, failed=False)

    def status(self) -> SessionStatus:
        """Return what it used and what it has left, as of now."""
        with self.owner.session_lock:
            calls, failures, refused, spent = self._calls, self._failures, self._refused, self._spent
        token_budget, max_failures, max_calls = self._limits
        return SessionStatus(
            session_id=self.session_id,
            user_id=self.user_id,
            calls=calls,
            calls_left=_left(max_calls, calls),
            tokens=spent.tokens,
            tokens_left=_left(token_budget, spent.tokens),
            failures=failures,
            failures_left=_left(max_failures, failures),
            refused=refused,
            cost_usd=spent.cost_usd,
            exhausted=self.exhausted,
            circuits=self.decision.local.not_closed(),
            caller_errors={} if self.caller_errors is None else dict(self.caller_errors.refused),
        )

    @property
    def exhausted(self) -> str | None:
        """Which limit was reached, of this session or of one around it. None while calls are let through."""
        return next((one.limit_reached for one in self.nested() if one.limit_reached is not None), None)

    # -- for the guard ------------------------------------------------------------------------------------------------

    def nested(self) -> tuple[Session, ...]:
        """Return this session and those of its client that it is entered within here, innermost first, each once."""
        stack = session_stack.get() or ()
        if len(stack) < 2 or self not in stack:
            return (self,)
        around = stack[: len(stack) - stack[::-1].index(self)]
        return tuple(dict.fromkeys(one for one in reversed(around) if one.owner is self.owner))

    @property
    def limit_reached(self) -> str | None:
        """Which limit of this session alone was reached, in words."""
        token_budget, max_failures, max_calls = self._limits
        tokens = self._spent.tokens
        if token_budget is not None and tokens >= token_budget:
            return (
                f"the token budget of session {name_for_model(self.session_id)} is spent ({tokens} of {token_budget})"
            )
        if max_failures is not None and self._failures >= max_failures:
            return f"{self._failures} calls of session {name_for_model(self.session_id)} failed (the limit is {max_failures})"
        if max_calls is not None and self._calls >= max_calls:
            return f"session {name_for_model(self.session_id)} has made its {max_calls} calls"
        return None

    def check_limits(self, tool: str) -> Rejection | None:
        """Return the refusal of a call of ``tool`` if a limit is reached. The call is not counted."""
        for session in self.nested():
            reason = session.limit_reached
            if reason is not None:
                session.add_calls(refused=1)
                return Rejection(tool, "open", "session", reason)
        return None

    def begin(self, tool: str) -> tuple[Session, ...] | Rejection:
        """Count a call of ``tool`` that nothing else refuses.

        Returns:
            The sessions that it counts in, or its refusal if a limit is reached.
        """
        with self.owner.session_lock:
            refusal = self.check_limits(tool)
            if refusal is not None:
                return refusal
            sessions = self.nested()
            for session in sessions:
                session.add_calls(1)
        return sessions

    def add_calls(self, begun: int = 0, *, refused: int = 0) -> None:
        """Count calls in this session alone. With ``begun=-1``, take back one that was never made."""
        with self.owner.session_lock:
            self._calls += begun
            self._refused += refused

    def ended(self, usage: Usage, *, failed: bool) -> None:
        """Count the end of a call, in this session alone."""
        if failed or usage is not NOTHING:
            with self.owner.session_lock:
                self._spent += usage
                self._failures += failed


def session_of(owner: object) -> Session | None:
    """Return the innermost session of ``owner``, a client's runtime, in the running task or thread."""
    stack = session_stack.get()
    if not stack or stack[-1].owner is owner:
        return stack[-1] if stack else None
    return next((one for one in reversed(stack) if one.owner is owner), None)


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Counts of a session, as of now. What is left is None without a limit."""

    session_id: str
    user_id: str
    calls: int
    """Calls that were let through, ended or not."""
    calls_left: int | None
    tokens: int
    tokens_left: int | None
    failures: int
    failures_left: int | None
    refused: int
    """Calls refused because a limit of this session was reached."""
    cost_usd: float
    exhausted: str | None
    """Which limit was reached, in words. None while calls are let through."""
    circuits: Mapping[str, CircuitState]
    """The session's own circuits that aren't closed, by circuit id."""
    caller_errors: Mapping[str, int]
    """Calls refused because the tool had rejected the ones before, by tool. They aren't part of ``refused``."""
