"""Count equal calls of a session: an agent that repeats the same call is in a loop."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from switchgear.numeric import is_number, is_whole
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.errors import SettingsError

PANES: Final = 10
"""The window slides by a tenth of its length, so a call needs ten counters however often it is made."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A call that was made before. A function in ``on_duplicate`` receives it."""

    tool: str
    session_id: str
    count: int
    """How often the call was made, this time included."""


_Name = tuple[str, str, str]
"""Session, tool and parameters of a call."""


class _Counts:
    """How often one call was made, by pane of the window."""

    __slots__ = ("_counts", "_latest")

    def __init__(self, pane: int) -> None:
        self._counts = [0] * PANES
        self._latest = pane

    def add(self, pane: int) -> int:
        """Count one call and return the sum of the window."""
        passed = min(max(0, pane - self._latest), PANES)
        for ahead in range(1, passed + 1):
            self._counts[(self._latest + ahead) % PANES] = 0
        self._latest = max(pane, self._latest)
        self._counts[self._latest % PANES] += 1
        return sum(self._counts)

    def remove_latest(self) -> int:
        """Take back the latest call and return the sum of the window."""
        for behind in range(PANES):
            pane = (self._latest - behind) % PANES
            if self._counts[pane]:
                self._counts[pane] -= 1
                break
        return sum(self._counts)


class DuplicateWatch:
    """Count equal calls of a session within the last ``window_s`` seconds. Thread-safe.

    Calls in between make no difference, so two loops that alternate are counted too. A slow poll isn't a loop: calls that are
    older than the window don't count. The window may be up to a tenth shorter.

    Args:
        limit: The most calls to remember. The call that was made longest ago is forgotten first.
        window_s: Seconds for which a call counts.
        clock: Returns monotonic seconds.

    Raises:
        SettingsError: An argument is out of range. The message names it.
    """

    def __init__(self, limit: int = 4096, window_s: float = 300.0, *, clock: Callable[[], float]) -> None:
        if not is_whole(limit) or limit < 1:
            raise SettingsError(f"limit is {limit!r}. Use a whole number of at least 1.")
        if not is_number(window_s) or not 0 < window_s <= sys.float_info.max:
            raise SettingsError(f"window_s is {window_s!r}. Use a number of seconds above 0.")
        if not callable(clock):
            raise SettingsError(f"clock is {clock!r}. Use a function that returns seconds.")
        self._limit = limit
        self._pane_s = window_s / PANES
        self._clock = clock
        self._calls: OrderedDict[_Name, _Counts] = OrderedDict()
        self._replace_lock()
        call_in_child(self._replace_lock)

    def __len__(self) -> int:
        return len(self._calls)

    def noted(self, session_id: str, tool: str, key: str) -> int:
        """Count a call.

        Args:
            session_id: The session. Calls without a session share the empty one.
            tool: The tool's name.
            key: What identifies the parameters, for example their hash.

        Returns:
            How often the session made this call within the window, this time included.
        """
        name = (session_id, tool, key)
        pane = int(self._clock() // self._pane_s)
        with self._lock:
            counts = self._calls.pop(name, None) or _Counts(pane)
            self._calls[name] = counts  # the last place: it was made last
            if len(self._calls) > self._limit:
                self._calls.popitem(last=False)
            return counts.add(pane)

    def taken_back(self, session_id: str, tool: str, key: str) -> None:
        """Uncount a call that was refused or failed. Trying it again isn't a repetition."""
        name = (session_id, tool, key)
        with self._lock:
            counts = self._calls.get(name)
            if counts is not None and not counts.remove_latest():
                self._calls.pop(name, None)

    def forget(self, session_id: str) -> None:
        """Forget the calls of a session that ended."""
        with self._lock:
            for name in [name for name in self._calls if name[0] == session_id]:
                self._calls.pop(name, None)

    def _replace_lock(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call a tool while this thread holds it
