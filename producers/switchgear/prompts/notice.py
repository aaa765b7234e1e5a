"""The notice: one sentence for the system prompt that says which tools are out, until when, and what to use instead.

Prompts are cached by their beginning, so a sentence that ticks would make every turn pay for the whole prompt again. This
one has instants instead of countdowns, and stays the same to the byte until a circuit opens, closes, or its wait ends. It
names tools and times alone: an error message is text of a stranger, and has no place in a system prompt.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from switchgear.arguments import renamed, renaming
from switchgear.breaker.states import PASSING
from switchgear.redaction.redact import MOST_NAME, one_line
from switchgear.runtime.fork import ForkSafe
from switchgear.sessions.session import session_of

if TYPE_CHECKING:
    from switchgear.follower.view import CircuitView
    from switchgear.guard.fleet_state import GuardMode
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.guard.runtime import Runtime


MAX_TOOLS: Final = 10
"""Tools named; the rest are counted."""

MOST_KEPT: Final = 4_096
"""Instants kept for circuits that a notice did not speak of, another session's: those it did speak of are kept beside them."""

NOTHING_CALLABLE: Final = "No tool can be called now: their state is unknown. Go on without tools."
"""Where the client refuses every call while the fleet is out of reach (``on_state_unavailable="deny"``)."""
SESSION_OVER: Final = "No tool can be called any more in this session. Finish with what you have."
"""Where a limit of the session is reached. Without its numbers: they may go on changing."""

NameOf = Mapping[str, str] | Callable[[str], str] | None
"""From a circuit's name to the one the model knows the tool by; a name that a mapping lacks stays."""


_Wait = tuple[str, float, float]
"""A circuit's wait: its id, until when and since when, in monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool that must not be called now."""

    tool: str
    until: float | None = None
    """From when it may be tried, in seconds since 1970; None where nobody knows."""
    since: float | None = None
    """When its circuit opened, likewise; where that is another day, ``until`` is shown with its date."""
    instead: tuple[str, ...] = ()
    """Tools to use instead, best first."""


def notice(tools: Iterable[Unavailable], *, name_of: NameOf = None, limit: int = MAX_TOOLS) -> str:
    """The sentence for ``tools``, in order of the names that the model knows; empty where there are none.

    A pure function. Of one name several times the latest instant counts. A substitute that is unavailable itself is not
    recommended, nor one that the model knows by the same name.

    Raises:
        SwitchgearError: ``name_of`` is no mapping or function, or has no name for one of them.
    """
    renaming("name_of", name_of)
    found: dict[str, list[Unavailable]] = {}
    for tool in tools:
        found.setdefault(_shown(tool.tool, name_of), []).append(tool)
    if not found:
        return ""
    named = [_phrase(name, found, name_of) for name in sorted(found)[:limit]]
    if len(found) > limit:
        named.append(f"and {len(found) - limit} more")
    return f"These tools are unavailable, do not call them: {', '.join(named)}."


def _lateness(tool: Unavailable) -> tuple[float, float, str, tuple[str, ...]]:
    """Orders those of one name, whatever the order they came in."""
    until = math.inf if tool.until is None else tool.until
    return until, -math.inf if tool.since is None else tool.since, tool.tool, tool.instead


def _phrase(name: str, out: Mapping[str, Sequence[Unavailable]], name_of: NameOf) -> str:
    tools = sorted(out[name], key=_lateness, reverse=True)
    latest = tools[0]
    when = "until further notice" if latest.until is None else f"not before {_instant(latest.until, latest.since)}"
    substitutes = (_shown(each, name_of) for tool in tools for each in tool.instead)
    substitute = next((each for each in substitutes if each not in out), None)
    use = "" if substitute is None else f"; use {substitute} instead"
    return f"{name} ({when}{use})"


def _shown(tool: str, name_of: NameOf) -> str:
    """On one line and bounded: some names come from other processes."""
    return one_line(renamed("name_of", name_of, tool), MOST_NAME)


def _instant(until: float, since: float | None) -> str:
    moment = _utc(math.ceil(until))  # never told too early
    dated = since is not None and _utc(since).date() != moment.date()
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if dated else f"{moment:%H:%M:%S} UTC"


def _utc(moment: float) -> datetime:
    latest = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
    return datetime.fromtimestamp(min(moment, latest), UTC)


class NoticeBoard(ForkSafe):
    """The notice of one client: reads its circuits, and keeps the instants of the process's own ones still.

    Those are monotonic seconds. Translated anew each time, one would now and then fall on another second and the sentence
    would change for nothing: each is translated once. Thread-safe.

    Args:
        clock: The local breakers' clock, monotonic seconds.
        wall: Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._instants: dict[_Wait, tuple[float, float]] = {}
        """Last those that were asked for last."""

    def notice(
        self,
        local: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Mapping[str, Sequence[str]],
        *,
        user_id: str = "",
        session_id: str = "",
        name_of: NameOf = None,
        limit: int = MAX_TOOLS,
    ) -> str:
        """The sentence as of now.

        Args:
            local: The process's own circuits.
            views: The fleet's, by circuit id.
            fallbacks: By tool, what to use instead; where it has none the fleet's policy decides.
            user_id: Whose circuits of scope ``user`` count.
            session_id: Whose circuits of scope ``session`` count.
            name_of: See :data:`NameOf`.
            limit: Most tools named.
        """
        return notice(
            self.unavailable(local, views, fallbacks, user_id=user_id, session_id=session_id),
            name_of=name_of,
            limit=limit,
        )

    def unavailable(
        self,
        local: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Mapping[str, Sequence[str]],
        *,
        user_id: str = "",
        session_id: str = "",
    ) -> list[Unavailable]:
        """What :meth:`notice` is made of. A circuit whose wait is over is left out: the next call may probe."""
        owner = {"user": user_id, "session": session_id}
        now = self._wall()
        found = []
        for view in list(views.values()):
            mine = view.circuit_id == view.tool_name or view.circuit_id.endswith(
                f"|{view.scope}={owner.get(view.scope)}"
            )
            if mine and _refused(view, now):
                instead = tuple(fallbacks.get(view.tool_name, ())) or view.fallback
                until = None if view.forced else view.open_until
                found.append(Unavailable(view.tool_name, until, view.changed_at, instead))
        for circuit_id, tool, until, since in self._local(local, owner):
            view_of_tool = views.get(circuit_id) or views.get(tool)
            if view_of_tool is None or not view_of_tool.overrides:
                instead = tuple(fallbacks.get(tool, ())) or (() if view_of_tool is None else view_of_tool.fallback)
                found.append(Unavailable(tool, until, since, instead))
        return found

    def forked(self) -> None:
        """In a child of a fork: its own lock."""
        self._lock = threading.Lock()

    def _local(
        self, circuits: Iterable[LocalCircuit], owner: Mapping[str, str]
    ) -> list[tuple[str, str, float | None, float | None]]:
        now = self._clock()
        ahead = self._wall() - now
        found: list[tuple[str, str, float | None, float | None]] = []
        kept: dict[_Wait, tuple[float, float]] = {}
        with self._lock:
            for circuit in circuits:
                breaker = circuit.breaker
                if breaker.state in PASSING:
                    continue
                with circuit.lock:
                    circuit_id, scope, state = breaker.circuit_id, breaker.policy.scope, breaker.state
                    wait = breaker.open_at(now)
                tool = _tool_of(circuit_id, scope, owner)
                if wait is not None:
                    since, until = wait
                    key = (circuit_id, until, since)
                    kept[key] = self._instants.get(key) or (until + ahead, since + ahead)
                    if tool is not None:
                        found.append((circuit_id, tool, *kept[key]))
                elif tool is not None and state == "forced_open":
                    found.append((circuit_id, tool, None, None))
            self._keep(kept)
        return found

    def _keep(self, used: dict[_Wait, tuple[float, float]]) -> None:
        """``used`` and, in bounded number, what other sessions that take turns with this one will ask for again."""
        now = self._clock()
        others = [(wait, kept) for wait, kept in self._instants.items() if wait not in used and now < wait[1]]
        self._instants = dict(others[-MOST_KEPT:]) | used


def _refused(view: CircuitView, now: float) -> bool:
    if view.passes:
        return False
    return view.forced or (view.state == "open" and view.open_until is not None and now < view.open_until)


def _tool_of(circuit_id: str, scope: str, owner: Mapping[str, str]) -> str | None:
    """The tool of a circuit that decides for this user and session; None where it is somebody else's."""
    if scope == "tool":
        return circuit_id
    tool, marker, whose = circuit_id.rpartition(f"|{scope}=")
    if not marker:
        return circuit_id if not owner[scope] else None
    return tool if whose == owner[scope] else None


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
    breakers = runtime.gate.local if mine is None else mine.decision.local
    return board.notice(
        breakers.all_now(),
        circuits,
        runtime.fallbacks.chains(),
        user_id="" if mine is None else mine.user_id,
        session_id="" if mine is None else mine.session_id,
        name_of=name_of,
    )
