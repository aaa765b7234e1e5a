"""The list of tools that a model sees, and when a text about them changes. Everything here is decided by a state, an event and a time.

Providers cache a prompt by its beginning, and the list of tools comes first: a tool that leaves or returns makes the provider read,
and bill, the whole conversation again. So by default the list stays as it is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child

ToolList = Literal["stable", "new_sessions", "hide"]
"""Which tools a model is offered.

``stable``: all of them, always. ``new_sessions``: a session's list leaves out what is refused when it begins, and never changes
then. ``hide``: a tool that stays down leaves all lists, and returns when it stays up.
"""
HIDE_AFTER_S: Final = 600.0
"""How long a tool is down before ``hide`` leaves it out, and up before it returns."""
SAYS_THE_SAME_S: Final = 60.0
"""A text about tools stays the same for so long after a change."""
TRIAL_S: Final = 300.0
"""How long a process offers a tool again whose probe it was given, at most: as long as a provider keeps a prompt in its cache."""
MOST_LISTS: Final = 10_000
"""The most sessions, and the most lists, to remember. The one that was used longest ago is forgotten first."""

T = TypeVar("T")


class Condition(NamedTuple):
    """What the circuits say of a tool."""

    down: bool = False
    """One that decides about its calls isn't closed."""
    refuses: bool = False
    """A call would be refused now."""
    probe: Literal["", "due", "held"] = ""
    """``due``: the wait is over, and a probe may be asked for. ``held``: this process has the lease of a probe."""


UP: Final = Condition()
REFUSES: Final = Condition(down=True, refuses=True)


class Entry(NamedTuple):
    """A tool in a list."""

    offered: bool
    """The model is offered it now."""
    hidden: bool = False
    """It has left the list."""
    down: bool = False
    """It was down when the list was last made."""
    since: float = 0.0
    """When ``down`` last changed, in monotonic seconds."""
    untested: float = 0.0
    """Since when the tool is out of the list and nobody has made the probe that is due, or this process has asked for it."""
    asked: float = -math.inf
    """When this process last asked for a probe."""
    trial_until: float = -math.inf
    """Until when it offers the tool for that probe."""
    asks: bool = False
    """Ask for a probe: maybe nobody else does, because no model is offered the tool."""


def step(entry: Entry | None, seen: Condition, now: float, mode: ToolList, hide_after_s: float) -> Entry:
    """Return a tool's next entry in a list.

    Args:
        entry: The one before. None: the list begins.
        seen: What the circuits say at ``now``.
        now: Monotonic seconds.
        mode: See :data:`ToolList`.
        hide_after_s: See :data:`HIDE_AFTER_S`.
    """
    if mode == "stable":
        return entry or Entry(offered=True)
    if mode == "new_sessions":
        return entry or Entry(offered=not seen.refuses)
    if entry is None or entry.down != seen.down:
        entry = (entry or Entry(offered=True))._replace(down=seen.down, since=now)
    if entry.hidden != entry.down and now - entry.since >= hide_after_s:
        entry = entry._replace(hidden=entry.down, untested=now)
    if not seen.probe:  # somebody has made it, or the wait goes on
        entry = entry._replace(untested=now, trial_until=-math.inf)
    elif seen.probe == "held" and now - entry.asked < TRIAL_S:
        entry = entry._replace(trial_until=entry.asked + TRIAL_S)
    tried = seen.probe == "held" or now < entry.trial_until
    asks = entry.hidden and not tried and seen.probe == "due" and now - entry.untested >= hide_after_s
    if asks:
        entry = entry._replace(untested=now, asked=now)
    return entry._replace(offered=tried or not entry.hidden, asks=asks)


def granted(entry: Entry, now: float) -> Entry:
    """Return the entry of a tool whose probe this process may make without asking another one."""
    return entry._replace(offered=True, trial_until=now + TRIAL_S)


class Said(NamedTuple, Generic[T]):
    """What a text says about the tools that are down, and since when."""

    down: frozenset[str]
    about: T
    """What the text is made of. It is kept while the set stays the same."""
    since: float


def settle(said: Said[T] | None, down: frozenset[str], about: T, now: float) -> Said[T]:
    """Return what a text says next. It changes only when the set of tools does, and at most once in :data:`SAYS_THE_SAME_S`."""
    if said is None:
        return Said(down, about, now if down else -math.inf)
    if down == said.down or now - said.since < SAYS_THE_SAME_S:
        return said
    return Said(down, about, now)


class Session(NamedTuple):
    """For whom a list is made."""

    name: str
    """The session, empty without one."""
    own: bool = False
    """It has circuits of its own."""


class ToolLists:
    """The lists of one client. Thread-safe.

    Args:
        mode: See :data:`ToolList`.
        hide_after_s: See :data:`HIDE_AFTER_S`.
        clock: Returns monotonic seconds.
    """

    def __init__(self, mode: ToolList, hide_after_s: float, clock: Callable[[], float]) -> None:
        self._rules = (mode, hide_after_s)
        self._clock = clock
        self._entries = BoundedDict[str, BoundedDict[str, Entry]](MOST_LISTS)
        """By session, then by tool. Without a session: those of the process."""
        self._last = BoundedDict[Hashable, tuple[bool, ...]](MOST_LISTS)
        self.changes = 0
        """How often a list that was shown to a model before was another one."""
        self._said = 0
        """How many of them an event said."""
        self._make_lock()
        call_in_child(self._make_lock)

    def offered(
        self,
        tools: Sequence[str],
        session: Session,
        condition: Callable[[str, bool], Condition],
        ask: Callable[[str, bool], bool],
    ) -> Sequence[bool]:
        """Return which tools of a list to offer.

        Args:
            tools: The circuits of all tools of the list.
            session: For whom it is.
            condition: Returns what the circuits say of a tool: those of the session if the flag is set, else the process's.
            ask: Asks the same circuits for a probe of a tool, without waiting. Returns whether this process may make it at once.
        """
        mode = self._rules[0]
        if mode == "stable" or (mode == "new_sessions" and not session.name):
            return [True] * len(tools)
        with self._lock:
            now = self._clock()
            if mode == "hide":
                found = self._listed("", tools, False, condition, ask, now)
            if mode == "new_sessions" or session.own:
                found = self._listed(session.name, tools, session.own, condition, ask, now)
            key = (session.name, tuple(tools))
            self.changes += self._last.get(key, found) != found
            self._last[key] = found
            return found

    def say(self) -> int:
        """Return how often lists changed since this was last called, to be sent in an event now."""
        if self.changes == self._said:  # of nearly every event
            return 0
        with self._lock:
            count, self._said = self.changes - self._said, self.changes
            return count

    def _listed(
        self,
        name: str,
        tools: Sequence[str],
        own: bool,
        condition: Callable[[str, bool], Condition],
        ask: Callable[[str, bool], bool],
        now: float,
    ) -> tuple[bool, ...]:
        entries = self._entries[name] = self._entries.get(name) or BoundedDict(MOST_LISTS)
        process: Mapping[str, Entry] = self._entries.get("") or {}
        for tool in dict.fromkeys(tools):
            seen, entry = condition(tool, own), entries.get(tool)
            if entry is None and (known := process.get(tool)) is not None and known.down == seen.down:
                entry = known  # a circuit of the fleet is down for longer than the session lasts
            entry = step(entry, seen, now, *self._rules)
            entries[tool] = granted(entry, now) if entry.asks and ask(tool, own) else entry
        return tuple(entries[tool].offered for tool in tools)

    def _make_lock(self) -> None:
        """Make the lock, again in the child of a fork: another thread of the parent may hold it."""
        self._lock = threading.RLock()
