"""Session: circuits that start fresh and end with it, and limits across all of its tools."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from switchgear.guard.rejections import Rejection
from switchgear.numeric import is_whole
from switchgear.runtime.fork import ForkSafe
from switchgear.sessions.context import enter, leave, nested
from switchgear.sessions.usage import Usage, usage_of
from switchgear_schemas.enums import MAX_NAME_LENGTH, CircuitState
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.decision import Gate
    from switchgear.guard.runtime import Runtime


class Session(ForkSafe):
    """Made by ``gear.session(...)``; ``with session:`` or ``async with`` makes it the session of the running task or thread.

    Its calls are decided by circuits of its own, which start closed, and by the fleet's; they carry its ``session_id`` and
    ``user_id``. The limits are of all its tools together, so switching tools does not evade them. They are compared when a
    call begins: calls that run at that moment may carry it past a limit.

    Thread-safe. It may be entered in several threads and tasks, also at once, and again after it was left. Where it is
    entered within another session of its client, it counts against that one's limits too.

    Args:
        session_id: On every event; 1 to 256 characters.
        user_id: On every event; at most 256 characters.
        token_budget: Tokens reported by the tools or by :meth:`spend`, after which calls are refused.
        max_failures: Failed calls of any tool after which calls are refused; cancelled ones and those refused by a policy don't count.
        max_calls: Calls after which more are refused.

    Raises:
        SwitchgearError: naming the argument that is impossible.
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
        _check_id("session_id", session_id)
        if not session_id:
            raise SwitchgearError("The session_id of a session is not empty.", hint="Leave it out to have one made.")
        _check_id("user_id", user_id)
        for name, limit in (("token_budget", token_budget), ("max_failures", max_failures), ("max_calls", max_calls)):
            if limit is not None and (not is_whole(limit) or limit < 1):
                raise SwitchgearError(f"The {name} of a session is a number from 1 on, or None, not {limit!r}.")
        self.session_id = session_id
        self.user_id = user_id
        self._limits = (token_budget, max_failures, max_calls)
        self._lock = threading.RLock()  # the garbage collector may end a forgotten call while this thread holds it
        self._calls = self._failures = self._refused = 0
        self._spent = Usage()
        self._exhausted: str | None = None
        self._places = 0
        self.owner: Runtime | None = None
        """The client's runtime: another client's calls are not in this session."""
        self.gate: Gate | None = None
        """Decides by the session's own circuits; set by the client that made it."""

    # -- being in it --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        enter(self)
        with self._lock:
            self._places += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not leave(self):  # left in another task than it was entered in: nothing of ours to undo
            return
        with self._lock:
            self._places -= 1
            over = self._places == 0
        if over and self.owner is not None:
            self.owner.session_left(self.session_id)

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
        told = usage_of(usage)
        for one in self.nested():
            one.ended(told, failed=False)

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
        return next((one._exhausted for one in self.nested() if one._exhausted is not None), None)  # noqa: SLF001

    def nested(self) -> tuple[Session, ...]:
        """This one and those of its client that it is entered within here, from the inside out: its calls count in all of them."""
        return nested(self)

    # -- what the guard tells -----------------------------------------------------------------------------------------

    def over(self, tool: str) -> Rejection | None:
        """Why no call of ``tool`` begins any more; None while calls are let through. None is counted here."""
        return _over(self.nested(), tool)

    def begin(self, tool: str) -> Rejection | None:
        """A call of ``tool`` that nothing else refuses: None, and it is counted; or why it may not be made in this session."""
        sessions = self.nested()
        if len(sessions) == 1:
            with self._lock:
                return _counted(sessions, tool)
        with contextlib.ExitStack() as locks:  # in all or in none: not for a moment does a refused call take a place
            for one in sorted(sessions, key=id):  # in one order, whoever is within whom
                locks.enter_context(one._lock)  # noqa: SLF001 - of the same class
            return _counted(sessions, tool)

    def not_made(self) -> None:
        """A call that had begun was never made, for this session alone."""
        with self._lock:
            self._calls -= 1
            self._judge()

    def ended(self, usage: Usage, *, failed: bool) -> None:
        """A call ended, for this session alone."""
        if failed or usage.tokens or usage.cost_usd:
            self._count(usage, failed=failed)

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock = threading.RLock()
        if self.gate is not None:
            self.gate.local.forked()

    def _count(self, usage: Usage, *, failed: bool) -> None:
        with self._lock:
            self._spent += usage
            self._failures += failed
            self._judge()

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


def _over(sessions: tuple[Session, ...], tool: str) -> Rejection | None:
    for one in sessions:
        why = one._exhausted  # noqa: SLF001 - of this file, as below
        if why is not None:
            with one._lock:  # noqa: SLF001
                one._refused += 1  # noqa: SLF001
            return Rejection(tool, "open", "session", why)
    return None


def _counted(sessions: tuple[Session, ...], tool: str) -> Rejection | None:
    """One call more in each of ``sessions``, whose locks are held."""
    refusal = _over(sessions, tool)
    if refusal is None:
        for one in sessions:
            one._calls += 1  # noqa: SLF001
            one._judge()  # noqa: SLF001
    return refusal


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _check_id(name: str, value: object) -> None:
    """The fleet reads no event with anything but text here, and a command names a session's circuit by it.

    Raises:
        SwitchgearError: it is no text, too long, or can't be written as UTF-8.
    """
    if not isinstance(value, str):
        raise SwitchgearError(f"The {name} of a session is text, not {value!r:.100}.", hint=f"Give str({name}).")
    if len(value) > MAX_NAME_LENGTH:
        raise SwitchgearError(f"The {name} of a session has at most {MAX_NAME_LENGTH} characters, not {len(value)}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SwitchgearError(f"The {name} of a session can't be written as UTF-8: {value!r:.100}.") from None


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """As of now. What is left is None where there is no limit."""

    session_id: str
    user_id: str
    calls: int
    """Calls that were let through, whether they have ended or not."""
    calls_left: int | None
    tokens: int
    tokens_left: int | None
    failures: int
    failures_left: int | None
    refused: int
    """Calls refused because a limit of this session was reached."""
    cost_usd: float
    exhausted: str | None
    """Which limit was reached, in words; None while calls are let through."""
    circuits: Mapping[str, CircuitState]
    """The session's own circuits that are not closed, by circuit id."""
