"""session_var: the session that the running task or thread is in. Read on every call, so it stands alone."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from switchgear.session import Session

session_var: Final[ContextVar[Session | None]] = ContextVar("switchgear_session", default=None)
"""None outside of every session. ``asyncio`` tasks and ``asyncio.to_thread`` inherit it; a bare thread enters by ``with session:``."""
