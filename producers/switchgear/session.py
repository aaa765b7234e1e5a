"""Session: circuits that start fresh and end with it, and limits across all of its tools."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from switchgear.fork_safe import ForkSafe
from switchgear.guard.rejection import Rejection
from switchgear.session_context import session_var
from switchgear.session_status import SessionStatus
from switchgear.usage import Usage, usage_of
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.gate import Gate

_Entered = tuple["Session", "Session | None", "_Entered | None"]
_entered: Final[ContextVar[_Entered | None]] = ContextVar("switchgear_sessions_entered", default=None)
"""Who was entered here, in whose place: a stack of this task or thread alone, so one session may be entered in many."""


class Session(ForkSafe):
    """Made by ``gear.session(...)``; ``with session:`` or ``async with`` makes it the session of the running task or thread.

    Its calls are decided by circuits of its own, which start closed, and by the fleet's; they carry its ``session_id`` and
    ``user_id``. The limits are of all its tools together, so switching tools does not evade them. They are compared when a
    call begins: calls that run at that moment may carry it past a limit.

    Thread-safe. It may be entered in several threads and tasks, also at once, and again after it was left. Within another
    session it counts against that one's limits too.

    Args:
        session_id: On every event.
        user_id: On every event.
        token_budget: Tokens reported by the tools or by :meth:`spend`, after which calls are refused.
        max_failures: Failed calls of any tool after which calls are refused; cancelled ones and those refused by a policy don't count.
        max_calls: Calls after which more are refused.
    """

    def __init__(
        self,
        session_id: str,
        *,
        user_id: str = "",
        token_budget: int | None = None,
        max_failures: int | None = None,
        max_calls: int | None = None,
    ) -> None:
        super().__init__()
        for name, limit in (("token_budget", token_budget), ("max_failures", max_failures), ("max_calls", max_calls)):
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
                raise SwitchgearError(f"The {name} of a session is a number from 1 on, or None, not {limit!r}.")
        self.session_id = session_id
        self.user_id = user_id
        self._limits = (token_budget, max_failures, max_calls)
        self._lock = threading.Lock()
        self._calls = self._failures = self._refused = 0
        self._spent = Usage()
        self._exhausted: str | None = None
        self._outer: Session | None = session_var.get()
        self.owner: object = None
        """The client's runtime: another client's calls are not in this session."""
        self.gate: Gate | None = None
        """Decides by the session's own circuits; set by the client that made it."""

    # -- being in it --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        before = session_var.get()
        _entered.set((self, before, _entered.get()))
        session_var.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        top = _entered.get()
        if top is None or top[0] is not self:  # left in another task than it was entered in: nothing of ours to undo
            return
        _, before, rest = top
        _entered.set(rest)
        session_var.set(before)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- what callers ask and tell ------------------------------------------------------------------------------------

    def spend(self, usage: Usage | int) -> None:
        """Count tokens (and cost) that no tool reported, such as the model's own between two calls.

        Raises:
            SwitchgearError: it is no usage, or less than nothing.
        """
        self._count(usage_of(usage), failed=False)

    def status(self) -> SessionStatus:
        """What it used and what it has left, as of now."""
        with self._lock:
            calls, failures, refused, spent = self._calls, self._failures, self._refused, self._spent
        token_budget, max_failures, max_calls = self._limits
        gate = self.gate
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
            circuits={} if gate is None else gate.local.not_closed(),
        )

    @property
    def exhausted(self) -> str | None:
        """Which limit, of this session or of one around it, was reached; None while calls are let through."""
        own = self._exhausted
        if own is None and self._outer is not None:
            return self._outer.exhausted
        return own

    # -- what the guard tells -----------------------------------------------------------------------------------------

    def begin(self, tool: str) -> Rejection | None:
        """A call of ``tool`` wants to begin: None, and it is counted; or why it may not be made in this session."""
        with self._lock:
            why = self._exhausted
            if why is None:
                self._calls += 1
                self._judge()
            else:
                self._refused += 1
        if why is not None:
            return Rejection(tool, "open", "session", why)
        refusal = None if self._outer is None else self._outer.begin(tool)
        if refusal is not None:
            self.given_back(outer=False)
        return refusal

    def given_back(self, *, outer: bool = True) -> None:
        """A call that had begun was never made."""
        with self._lock:
            self._calls -= 1
            self._judge()
        if outer and self._outer is not None:
            self._outer.given_back()

    def ended(self, usage: Usage, *, failed: bool) -> None:
        """A call ended."""
        if failed or usage.tokens or usage.cost_usd:
            self._count(usage, failed=failed)

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock = threading.Lock()
        if self.gate is not None:
            self.gate.local.forked()

    def _count(self, usage: Usage, *, failed: bool) -> None:
        with self._lock:
            self._spent += usage
            self._failures += failed
            self._judge()
        if self._outer is not None:
            self._outer._count(usage, failed=failed)  # noqa: SLF001 - of the same class

    def _judge(self) -> None:
        token_budget, max_failures, max_calls = self._limits
        spent = self._spent.tokens
        self._exhausted = None
        if token_budget is not None and spent >= token_budget:
            self._exhausted = f"the token budget of session {self.session_id} is spent ({spent} of {token_budget})"
        elif max_failures is not None and self._failures >= max_failures:
            self._exhausted = (
                f"{self._failures} calls of session {self.session_id} failed (the limit is {max_failures})"
            )
        elif max_calls is not None and self._calls >= max_calls:
            self._exhausted = f"session {self.session_id} has made its {max_calls} calls"


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)
