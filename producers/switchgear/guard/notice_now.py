"""The notice as of now: of the running session where there is one, else of the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from switchgear.arguments import renaming
from switchgear.notice import NOTHING_CALLABLE, SESSION_OVER, NoticeBoard
from switchgear.session_context import session_of

if TYPE_CHECKING:
    from switchgear.follower.view import CircuitView
    from switchgear.guard.runtime import Runtime
    from switchgear.guard.unavailable import GuardMode
    from switchgear.notice import NameOf


def notice_now(
    runtime: Runtime, board: NoticeBoard, mode: GuardMode, circuits: Mapping[str, CircuitView], name_of: NameOf
) -> str:
    """The sentence for the system prompt.

    Args:
        runtime: What the client's calls share.
        board: The client's, which keeps instants still.
        mode: Who decides now.
        circuits: The fleet's, by circuit id.
        name_of: From a circuit's name to the one that the model knows.
    """
    renaming("name_of", name_of)
    mine = session_of(runtime)
    if mine is not None and mine.exhausted is not None:
        return SESSION_OVER
    if mode == "deny":
        return NOTHING_CALLABLE
    gate = runtime.gate if mine is None or mine.gate is None else mine.gate
    return board.notice(
        gate.local.all_now(),
        circuits,
        runtime.fallbacks.chains(),
        user_id="" if mine is None else mine.user_id,
        session_id="" if mine is None else mine.session_id,
        name_of=name_of,
    )
