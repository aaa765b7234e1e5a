"""DuplicateWatch: an agent that makes the very same call again and again is in a loop."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from switchgear.numeric import is_number, is_whole
from switchgear.runtime.fork import ForkSafe
from switchgear_schemas.errors import SettingsError

PANES: Final = 10
"""The window slides a tenth at a time: a call's memory is ten numbers, however often it is made."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A call that was made before: what a function in ``on_duplicate`` is told."""

    tool: str
    session_id: str
    count: int
    """How often, this time included."""


_Name = tuple[str, str, str]
"""Session, tool and parameters of a call."""


class _Calls:
    """One call's number by pane."""

    __slots__ = ("counts", "latest")

    def __init__(self, pane: int) -> None:
        self.counts = [0] * PANES
        self.latest = pane

    def noted(self, pane: int) -> int:
        passed = min(max(0, pane - self.latest), PANES)
        for ahead in range(1, passed + 1):
            self.counts[(self.latest + ahead) % PANES] = 0
        self.latest = max(pane, self.latest)
        if passed == PANES:
            self.counts = [0] * PANES
        self.counts[self.latest % PANES] += 1
        return sum(self.counts)

    def taken_back(self) -> int:
        """One less, the latest; how many are left."""
        for behind in range(PANES):
            pane = (self.latest - behind) % PANES
            if self.counts[pane]:
                self.counts[pane] -= 1
                break
        return sum(self.counts)


class DuplicateWatch(ForkSafe):
    """Counts equal calls of a session within the last ``window_s`` seconds, whatever was called between them. Thread-safe.

    Two loops that take turns (A, B, A, B) are so told as well as one. A slow poll is not a loop: what is older than the
    window (by up to a tenth younger) no longer counts.

    Args:
        limit: Most calls remembered; the one made longest ago is forgotten first.
        window_s: Seconds for which a call counts.
        clock: Monotonic seconds.

    Raises:
        SettingsError: naming the argument that is impossible.
    """

    def __init__(self, limit: int = 4096, window_s: float = 300.0, *, clock: Callable[[], float]) -> None:
        super().__init__()
        if not is_whole(limit) or limit < 1:
            raise SettingsError(f"duplicates: limit is a whole number from 1, not {limit!r}.")
        if not is_number(window_s) or not 0 < window_s <= sys.float_info.max:
            raise SettingsError(f"duplicates: window_s is a number of seconds above 0, not {window_s!r}.")
        if not callable(clock):
            raise SettingsError(f"duplicates: clock is a function that gives seconds, not {clock!r}.")
        self._limit = limit
        self._pane_s = window_s / PANES
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may call a tool amid any of these
        self._calls: OrderedDict[_Name, _Calls] = OrderedDict()
        self._sessions: dict[str, set[_Name]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def noted(self, session_id: str, tool: str, key: str) -> int:
        """Note a call.

        Args:
            session_id: Whose; calls without a session share the empty one.
            tool: Which tool.
            key: What tells its parameters apart, e.g. their hash.

        Returns:
            How often this session made this very call within the window, this one included: 1 for the first.
        """
        name = (session_id, tool, key)
        pane = int(self._clock() // self._pane_s)
        with self._lock:
            calls = self._calls.get(name)
            if calls is None:
                calls = self._calls[name] = _Calls(pane)
                self._sessions.setdefault(session_id, set()).add(name)
                if len(self._calls) > self._limit:
                    self._drop(next(iter(self._calls)))
            else:
                with contextlib.suppress(KeyError):  # what interrupts may have dropped it
                    self._calls.move_to_end(name)
            return calls.noted(pane)

    def taken_back(self, session_id: str, tool: str, key: str) -> None:
        """A call that was noted gave its caller nothing, since it was refused or failed: to try again is no repetition."""
        name = (session_id, tool, key)
        with self._lock:
            calls = self._calls.get(name)
            if calls is not None and not calls.taken_back():
                self._drop(name)

    def forget(self, session_id: str) -> None:
        """The session has ended."""
        with self._lock:
            for name in self._sessions.pop(session_id, ()):
                self._calls.pop(name, None)

    def forked(self) -> None:
        """In a child of a fork: its own lock; its sessions go on."""
        self._lock = threading.RLock()

    def _drop(self, name: _Name) -> None:
        self._calls.pop(name, None)  # each step as if it were done already: what interrupts may have dropped it too
        names = self._sessions.get(name[0], set())
        names.discard(name)
        if not names:
            self._sessions.pop(name[0], None)
