"""Count equal calls of a session: an agent that repeats the same call is in a loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child

MOST_COUNTED: Final = 1_000
"""The highest count of one call. Only the times of so many are kept."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A call that was made before. A function in ``on_duplicate`` receives it."""

    tool: str
    session_id: str
    count: int
    """How often the call was made, this time included."""


class DuplicateCounter:
    """Count equal calls of a session within the last ``window_s`` seconds. Thread-safe.

    Calls in between make no difference, so two loops that alternate are counted too. A slow poll isn't a loop: calls that are
    older than the window don't count.

    Args:
        limit: The most calls to remember. The call that was made longest ago is forgotten first.
        window_s: Seconds for which a call counts.
        clock: Returns monotonic seconds.
    """

    def __init__(self, limit: int = 4096, window_s: float = 300.0, *, clock: Callable[[], float]) -> None:
        self._window_s = window_s
        self._clock = clock
        self._calls = BoundedDict[tuple[str, str, str], deque[float]](limit)
        """The times of each call, by session, tool and parameters."""
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
        now = self._clock()
        with self._lock:
            times = self._calls.get(name)
            if times is None:
                times = self._calls[name] = deque(maxlen=MOST_COUNTED)
            self._calls.move_to_end(name)
            while times and times[0] <= now - self._window_s:
                times.popleft()
            times.append(now)
            return len(times)

    def taken_back(self, session_id: str, tool: str, key: str) -> None:
        """Uncount a call that was refused or failed. Trying it again isn't a repetition."""
        name = (session_id, tool, key)
        with self._lock:
            times = self._calls.get(name)
            if times is not None:
                times.pop()
                if not times:
                    del self._calls[name]

    def forget(self, session_id: str) -> None:
        """Forget the calls of a session that ended."""
        with self._lock:
            for name in [name for name in self._calls if name[0] == session_id]:
                del self._calls[name]

    def _replace_lock(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call a tool while this thread holds it
