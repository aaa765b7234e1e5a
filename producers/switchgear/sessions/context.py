"""Which sessions the running task or thread is in. Read on every call, so it stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from switchgear.sessions.session import Session


session_var: Final[ContextVar[Session | None]] = ContextVar("switchgear_session", default=None)
"""The innermost one, None outside of every session. ``asyncio`` tasks and ``asyncio.to_thread`` inherit it; a bare thread
enters by ``with session:``."""

Entries = tuple["Session", "Entries | None"]
"""What was entered last, and what was before it: never changed, since another task may have inherited it."""
_entries: Final[ContextVar[Entries | None]] = ContextVar("switchgear_sessions_entered", default=None)


def entered() -> Iterator[Session]:
    """Every session that was entered here and not left, from the inside out; one that was entered twice comes twice."""
    rest = _entries.get()
    while rest is not None:
        session, rest = rest
        yield session


def nested(session: Session) -> tuple[Session, ...]:
    """``session`` and those of its client that it is entered within here, from the inside out, each once."""
    rest = _entries.get()
    while rest is not None and rest[0] is not session:
        rest = rest[1]
    if rest is None or rest[1] is None:
        return (session,)
    found = [session]
    while rest is not None:
        one, rest = rest
        if one.owner is session.owner and one not in found:
            found.append(one)
    return tuple(found)


def session_of(owner: object) -> Session | None:
    """The innermost session of ``owner``, a client's runtime: another client's sessions are not its own."""
    session = session_var.get()
    if session is None or session.owner is owner:
        return session
    return next((one for one in entered() if one.owner is owner), None)


def enter(session: Session) -> None:
    """``session`` is the innermost one from here on."""
    _entries.set((session, _entries.get()))
    session_var.set(session)


def leave(session: Session) -> bool:
    """Undo the last :func:`enter` of ``session`` that was made here, also where others were entered after it; or say no.

    Two generators that take turns leave in the order in which they end, not in the reverse of their beginning.
    """
    found = _without(session, _entries.get())
    if found is None:
        return False
    left = found[0]
    _entries.set(left)
    session_var.set(None if left is None else left[0])
    return True


def _without(session: Session, entries: Entries | None) -> tuple[Entries | None] | None:
    """``entries`` without the last one of ``session``, in a tuple; None where there is none."""
    above: list[Session] = []
    while entries is not None:
        top, rest = entries
        if top is session:
            for one in reversed(above):
                rest = (one, rest)
            return (rest,)
        above.append(top)
        entries = rest
    return None
