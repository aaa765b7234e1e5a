"""What a circuit remembers of its calls, and whether it breaches a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from switchgear.breaker.rules import Breach, Thresholds, thresholds_of
from switchgear.breaker.values import Result, ResultKind
from switchgear.breaker.windows import CountWindow, TimeWindow, panes_of

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


MOST_TOKENS: Final = 10**12
"""Most tokens counted of one call. A larger number is a mistake, and sums of it would overflow 64 bits."""
Window = TimeWindow | CountWindow
_SUCCESS: Final = ResultKind.SUCCESS


def make_window(policy: BreakerPolicy, now: float) -> Window:
    """Return an empty window as ``policy`` wants it."""
    if policy.sliding_window_type == "count":
        return CountWindow(int(policy.sliding_window_size))
    size = float(policy.sliding_window_size)
    return TimeWindow(size, panes_of(size, policy.sliding_window_panes), now)


def _is_forgiving(limits: Thresholds, window: Window) -> bool:
    """Return whether a success can only end a run of failures or lower a sum.

    So no rule compares failures with all calls or all callers, and none has a window of calls, which successes push failures out of.
    """
    compares = min(limits.rate, limits.slow_rate, limits.slow_ms) < math.inf or limits.minimum_reporters > 1
    moves = isinstance(window, CountWindow) and min(limits.count, limits.tokens) < math.inf
    return not compares and not moves


class Evidence:
    """Window, run of failures, CUSUM and reporters of one circuit. Each call takes constant time."""

    __slots__ = (
        "_forgiving",
        "callers",
        "cusum",
        "cusum_calls",
        "cusum_failed",
        "failers",
        "limits",
        "streak",
        "window",
    )

    def __init__(self, policy: BreakerPolicy, now: float) -> None:
        self.limits = thresholds_of(policy)
        self.window: Window = make_window(policy, now)
        self.streak = 0
        """Failures since the last success."""
        self.cusum = 0
        """In the detector's units, at most its height: a sum that too few reporters hold back can then fall at once."""
        self.cusum_calls = self.cusum_failed = 0
        """Calls since the sum was last zero, and how many of them failed. They have a meaning only while the sum is above zero."""
        self.failers: Reporters | None = None
        self.callers: Reporters | None = None
        if policy.minimum_reporters > 1:
            self.failers = Reporters(policy.minimum_reporters)
            self.callers = Reporters(policy.minimum_reporters)
        self._forgiving = _is_forgiving(self.limits, self.window)

    @property
    def clean(self) -> bool:
        """Whether one more success would change no decision, now or later."""
        return self._forgiving and self.streak == 0 and self.cusum == 0

    def clear(self) -> None:
        """Forget everything."""
        self.window.clear()
        self.streak = 0
        self.cusum = 0
        if self.callers is not None and self.failers is not None:
            self.callers.clear()
            self.failers.clear()

    def rewind(self, policy: BreakerPolicy, now: float) -> None:
        """Go on from an earlier instant. A time window starts empty, because its panes have wrong dates."""
        if isinstance(self.window, TimeWindow):
            self.window = make_window(policy, now)
            if self.callers is not None and self.failers is not None:
                self.callers.clear()
                self.failers.clear()

    def add(self, now: float, result: Result) -> bool:
        """Count a result that is not ignored. Return whether some rule is breached; :meth:`breach` then returns it."""
        limits = self.limits
        window = self.window
        slow = result.duration_ms > limits.slow_ms
        if result.kind is _SUCCESS:
            window.add(now, slow)
            self.streak = 0
            if self.cusum:
                total = self.cusum - limits.down
                self.cusum = total if total > 0 else 0  # noqa: FURB136 - max() is slower
                self.cusum_calls += 1
            if self.callers is not None:
                self.callers.add(result.reporter, window.stamp)
                if slow and self.failers is not None:
                    self.failers.add(result.reporter, window.stamp)
            if not window.failed and not window.slow:
                return False
        else:
            self._add_failure(now, result, slow)
        calls = window.calls
        return (
            self.streak >= limits.consecutive
            or (
                calls >= limits.minimum_calls
                and (window.failed / calls >= limits.rate or window.slow / calls >= limits.slow_rate)
            )
            or self.cusum >= limits.height
            or window.failed >= limits.count
            or window.tokens >= limits.tokens
        )

    def _add_failure(self, now: float, result: Result, slow: bool) -> None:
        limits = self.limits
        window = self.window
        window.add_failed(now, slow, min(result.tokens, MOST_TOKENS))
        self.streak += 1
        if limits.up:
            if not self.cusum:
                self.cusum_calls = self.cusum_failed = 0
            self.cusum_calls += 1
            self.cusum_failed += 1
            self.cusum = min(self.cusum + limits.up, int(limits.height))
        if self.callers is not None and self.failers is not None:
            self.callers.add(result.reporter, window.stamp)
            self.failers.add(result.reporter, window.stamp)

    def breach(self) -> tuple[Breach, int | None] | None:
        """Return the breached rule and the number of processes with bad calls, which is None if the policy doesn't use it.

        Return None if no rule is breached, or if too few of the processes that called had bad calls.
        """
        found = self._first_breach()
        if found is None or self.failers is None or self.callers is None:
            return None if found is None else (found, None)
        oldest = self.window.oldest
        failing = self.failers.count(oldest)
        if failing < min(self.limits.minimum_reporters, self.callers.count(oldest)):
            return None
        return found, failing

    def _first_breach(self) -> Breach | None:  # noqa: PLR0911 - one return per rule
        """Return the first breached rule, in the order of the documentation."""
        limits, window, streak = self.limits, self.window, self.streak
        calls, failed = window.calls, window.failed
        if streak >= limits.consecutive:
            return Breach("consecutive_failures", streak, limits.consecutive, streak, streak)
        if failed >= limits.count:
            return Breach("failure_count", failed, limits.count, calls, failed)
        if calls >= limits.minimum_calls:
            if failed / calls >= limits.rate:
                return Breach("failure_rate", failed / calls, limits.rate, calls, failed)
            if window.slow / calls >= limits.slow_rate:
                return Breach("slow_call_rate", window.slow / calls, limits.slow_rate, calls, failed)
        if window.tokens >= limits.tokens:
            return Breach("wasted_tokens", window.tokens, limits.tokens, calls, failed)
        if limits.cusum is not None and self.cusum >= limits.height:
            unit, height = limits.cusum.unit, limits.cusum.height
            return Breach("cusum", self.cusum * unit, height * unit, self.cusum_calls, self.cusum_failed)
        return None

    def adapt(self, policy: BreakerPolicy, now: float) -> None:
        """Go on under another policy, and keep what still has a meaning.

        A run of failures stays. A window stays if its type does: its panes or calls, and the reporters with them, are counted into
        the new size. The CUSUM stays if its rates do. Slow calls stay if the duration that makes a call slow does.
        """
        old = self.limits
        self.limits = new = thresholds_of(policy)
        if new.slow_ms != old.slow_ms:
            self.window.forget_slow()
        self.cusum = min(self.cusum, int(new.height)) if new.up and (new.up, new.down) == (old.up, old.down) else 0
        self._adapt_window(policy, now)
        self._forgiving = _is_forgiving(new, self.window)
        if new.minimum_reporters == old.minimum_reporters:
            return
        if new.minimum_reporters == 1:
            self.failers = self.callers = None
        else:
            limit = new.minimum_reporters
            self.failers = self.failers.resized(limit) if self.failers is not None else Reporters(limit)
            self.callers = self.callers.resized(limit) if self.callers is not None else Reporters(limit)

    def _adapt_window(self, policy: BreakerPolicy, now: float) -> None:
        old, new = self.window, make_window(policy, now)
        reporters = [each for each in (self.failers, self.callers) if each is not None]
        if isinstance(old, TimeWindow) and isinstance(new, TimeWindow):
            if (old.size, old.panes) == (new.size, new.panes):
                return
            for pane in old:
                new.put((old.index_in(new, pane[0]), *pane[1:]))
            for each in reporters:
                each.restamp(partial(old.index_in, new))
        elif isinstance(old, CountWindow) and isinstance(new, CountWindow):
            if old.size == new.size:
                return
            new.stamp = old.stamp - old.calls
            new.ignored = old.ignored
            for call in old:
                new.put(call)
        else:
            for each in reporters:
                each.clear()
        self.window = new


MAX_NAME: Final = 64
"""Characters of a reporter's name that count, from its end: the processes of one node differ there."""


class Reporters:
    """The last ``limit`` distinct reporters, each with the stamp (pane or call number) at which it last reported."""

    __slots__ = ("limit", "seen")

    def __init__(self, limit: int, seen: Iterable[tuple[str, int]] = ()) -> None:
        self.limit = limit
        self.seen: dict[str, int] = dict(seen)  # the one that reported longest ago comes first

    def add(self, name: str, stamp: int) -> None:
        """Note that ``name`` reported at ``stamp``. Stamps never go backwards."""
        seen = self.seen
        if seen.get(name) == stamp:  # the order among equal stamps does not matter
            return
        if len(name) > MAX_NAME:
            name = name[-MAX_NAME:]
        last = seen.pop(name, None)
        if last is None and len(seen) >= self.limit:
            del seen[next(iter(seen))]
        seen[name] = stamp

    def count(self, oldest: int) -> int:
        """Return the number of distinct reporters at ``oldest`` or later, at most ``limit``."""
        seen = self.seen
        while seen:
            first = next(iter(seen))
            if seen[first] >= oldest:
                break
            del seen[first]
        return len(seen)

    def clear(self) -> None:
        """Forget all reporters."""
        self.seen.clear()

    def resized(self, limit: int) -> Reporters:
        """Return the same with another limit. Those who reported longest ago leave first."""
        return Reporters(limit, list(self.seen.items())[-limit:])

    def restamp(self, new: Callable[[int], int]) -> None:
        """Give each reporter its stamp in another window."""
        self.seen = {name: new(stamp) for name, stamp in self.seen.items()}
