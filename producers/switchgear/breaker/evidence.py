"""What a circuit remembers of its calls, and whether it breaches a rule. Each rule compares by ``>=``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.breaker.cusum import OFF, Detector, solve
from switchgear.breaker.states import STALE_S
from switchgear.breaker.values import LEAST_OVERDUE_MS, Result, ResultKind
from switchgear.breaker.weak import COUNT_HALF, WEAK_SHARE, Weak
from switchgear.breaker.windows import CountWindow, TimeWindow
from switchgear_schemas.cause import Cause, Counts

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy


_SUCCESS: Final = ResultKind.SUCCESS
MOST_DENIED: Final = 64
"""The most credentials that a circuit remembers. A policy that asks for more opens none by this rule."""


class Thresholds(msgspec.Struct, frozen=True, gc=False):
    """The thresholds of a policy, shared by all its circuits. The threshold of a rule that is off is infinite."""

    consecutive: float
    count: float
    rate: float
    minimum_calls: int
    slow_ms: float
    late_ms: float
    """A call is overdue once it has run this long. With a rate of slow calls alone that is the least limit that the fleet learns."""
    slow_rate: float
    tokens: float
    cusum: Detector
    denied: int
    """Different credentials. 0: the rule is off."""
    minimum_reporters: int
    minimum_tools: int


def _or_never(threshold: float | None) -> float:
    return math.inf if threshold is None else threshold


def _late_ms(policy: Policy) -> float:
    if policy.slow_call_rate_threshold is None:  # no rule counts it
        return math.inf
    slow_ms = policy.slow_call_duration_threshold_ms
    return LEAST_OVERDUE_MS if slow_ms is None else slow_ms


@lru_cache(maxsize=1024)
def thresholds_of(policy: Policy) -> Thresholds:
    """Return the thresholds of ``policy``."""
    return Thresholds(
        consecutive=_or_never(policy.consecutive_failures),
        count=_or_never(policy.failure_count),
        rate=_or_never(policy.failure_rate_threshold),
        minimum_calls=policy.minimum_number_of_calls,
        slow_ms=_or_never(policy.slow_call_duration_threshold_ms),
        late_ms=_late_ms(policy),
        slow_rate=_or_never(policy.slow_call_rate_threshold),
        tokens=_or_never(policy.wasted_tokens),
        cusum=OFF if policy.cusum is None else solve(policy.cusum),
        denied=0 if (policy.consecutive_auth_failures or 0) > MOST_DENIED else policy.consecutive_auth_failures or 0,
        minimum_reporters=policy.minimum_reporters,
        minimum_tools=policy.minimum_tools,
    )


class Evidence:
    """Window, run of failures, CUSUM, reporters and tools of one circuit. Each call takes constant time."""

    def __init__(self, policy: Policy, now: float) -> None:
        self.limits = limits = thresholds_of(policy)
        self.window: TimeWindow | CountWindow
        if policy.sliding_window_type == "count":
            self.window = CountWindow(int(policy.sliding_window_size))
        else:
            self.window = TimeWindow(float(policy.sliding_window_size), policy.sliding_window_panes, now)
        self.run_age_s = STALE_S if policy.sliding_window_type == "count" else float(policy.sliding_window_size)
        """A run of failures ends if the next call begins later than this after the last one."""
        self.counted_at = now
        """When the last call was counted, if there is a run or a sum. It has a meaning only then."""
        self.streak = 0
        """Failures since the last success, without a gap longer than :attr:`run_age_s`."""
        self.cusum = 0
        """In the detector's units, at most its height: a sum that too few reporters hold back can then fall at once."""
        self.cusum_calls = self.cusum_failed = 0
        """Calls since the sum was last zero, and how many of them failed. They have a meaning only while the sum is above zero."""
        self.denied: dict[str, tuple[int, str]] = {}
        """Credentials that were rejected since the last success, each with the stamp and the process of the last time. The one
        that was rejected longest ago comes first."""
        self.callers = Reporters(limits.minimum_reporters)
        self.failers = Reporters(limits.minimum_reporters)
        self.weak = Weak()
        self.called: dict[str, None] = {}
        """Tools that were called since the evidence was cleared, up to the number that the policy asks for."""
        self.failing_tools = Reporters(limits.minimum_tools)
        compares = min(limits.rate, limits.slow_rate, limits.slow_ms) < math.inf or limits.minimum_reporters > 1
        moves = policy.sliding_window_type == "count" and min(limits.count, limits.tokens) < math.inf
        self._forgiving = not compares and not moves
        """Whether the success of a noted tool can only end a run of failures or lower a sum: no rule compares failures with all
        calls or all callers, and none has a window of calls, which successes push failures out of."""

    @property
    def clean(self) -> bool:
        """Whether one more success of a tool in :attr:`called` would change no decision, now or later."""
        return self._forgiving and self.streak == 0 and self.cusum == 0 and not self.denied

    def note_tools(self, names: Iterable[str]) -> None:
        """Count tools among those that were called."""
        for name in names:
            if len(self.called) >= self.limits.minimum_tools:
                return
            self.called[name] = None

    def clear(self) -> None:
        """Forget everything."""
        self.window.clear()
        self.streak = 0
        self.cusum = 0
        self.denied.clear()
        self.callers.seen.clear()
        self.failers.seen.clear()
        self.weak = Weak()
        self.called.clear()
        self.failing_tools.seen.clear()

    def late(self, overdue_ms: float | None) -> bool:
        """Return whether a call that ran so long before its end counts as slow by that alone."""
        return overdue_ms is not None and overdue_ms >= self.limits.late_ms

    def add_overdue(self, now: float, result: Result) -> bool:
        """Count a call that goes on as slow. Return whether it is, so that some rule may be breached.

        It is a call of the window from now on. At its end, :meth:`add` only adds what is new.
        """
        if not self.late(result.duration_ms):
            return False
        self.window.add(now, slow=True)
        self._note(result, bad=True)
        return True

    def add(self, now: float, result: Result) -> bool:
        """Count the end of a call that is not ignored. Return whether some rule is breached; :meth:`breach` then returns it."""
        limits = self.limits
        window = self.window
        if self.streak or self.cusum:
            self._forget_old(now - result.duration_ms / 1000)
        slow = result.duration_ms > limits.slow_ms
        failed = result.kind is not _SUCCESS
        counted = result.overdue_ms is not None and self.late(result.overdue_ms)
        if failed:
            self._add_failure(now, result, slow, counted)
        else:
            if counted:
                window.roll(now)
            else:
                window.add(now, slow)
            self.streak = 0
            if self.denied:
                self.denied.clear()
            if self.cusum:
                total = self.cusum - limits.cusum.down
                self.cusum = total if total > 0 else 0  # noqa: FURB136 - max() is slower
                self.cusum_calls += 1
                self.counted_at = now
        if (limits.minimum_reporters > 1 or limits.minimum_tools > 1) and (failed or not counted):
            self._note(result, bad=failed or slow)
        if not window.failed and not window.slow:
            return False
        calls = window.calls
        weak = self.weak.count(window.oldest) if self.weak.total else 0
        return (
            self.streak >= limits.consecutive
            or (
                calls >= limits.minimum_calls
                and (
                    (window.failed - weak * WEAK_SHARE) / calls >= limits.rate
                    or window.slow / calls >= limits.slow_rate
                )
            )
            or self.cusum >= limits.cusum.height
            or window.failed - weak >= limits.count
            or window.tokens >= limits.tokens
            or (len(self.denied) >= limits.denied > 0)
        )

    def add_successes(self, now: float, count: int) -> None:
        """Count successes up to ``now`` for which :func:`~switchgear.breaker.steady.steady` holds."""
        self.window.add_many(count)
        if self.cusum:
            down = self.limits.cusum.down
            self.cusum_calls += min(count, -(-self.cusum // down))
            self.cusum = max(0, self.cusum - count * down)
            self.counted_at = now

    @property
    def knows_callers(self) -> bool:
        """Whether another process that calls in this pane changes no decision: only the number of callers is compared."""
        return self.callers.suffice(self.window.stamp)

    def add_caller(self, reporter: str) -> None:
        """Count a process that called."""
        if not self.knows_callers:
            self.callers.add(reporter, self.window.stamp)

    def _note(self, result: Result, *, bad: bool) -> None:
        """Count the process and the tool of a call among those that had calls, and bad ones."""
        limits, stamp = self.limits, self.window.stamp
        if limits.minimum_reporters > 1:
            self.add_caller(result.reporter)
            if bad:
                self.failers.add(result.reporter, stamp)
        if limits.minimum_tools > 1:
            if len(self.called) < limits.minimum_tools:
                self.called[result.tool] = None
            if bad:
                self.failing_tools.add(result.tool, stamp)

    def add_denied(self, now: float, result: Result) -> bool:
        """Count an ignored call whose credential was rejected. Return whether so many different ones were that the tool is out.

        Any call that the tool accepts ends the row: three people with old tokens among a thousand others are no outage.
        """
        window, denied, most = self.window, self.denied, self.limits.denied
        window.add_ignored(now)
        denied.pop(result.credential, None)
        denied[result.credential] = (window.stamp, result.reporter)
        if len(denied) > most:
            del denied[next(iter(denied))]
        if self.limits.minimum_reporters > 1:
            self.callers.add(result.reporter, window.stamp)
        return self._denied_now() >= most

    def _denied_now(self) -> int:
        """Forget the credentials that were rejected before the window, and return the number of the others."""
        oldest = self.window.oldest
        while self.denied and next(iter(self.denied.values()))[0] < oldest:
            del self.denied[next(iter(self.denied))]
        return len(self.denied)

    def _add_failure(self, now: float, result: Result, slow: bool, counted: bool) -> None:
        if counted:
            left_ms = max(0.0, result.duration_ms - (result.overdue_ms or 0.0))
            self.window.fail_slow(now, now - left_ms / 1000, result.tokens)
        else:
            self.window.add_failed(now, slow, result.tokens)
        if result.weak:
            self.weak.add(self.window.stamp)
            return
        self.counted_at = now
        self.streak += 1
        detector = self.limits.cusum
        if detector.up:
            if not self.cusum:
                self.cusum_calls = self.cusum_failed = 0
            self.cusum_calls += 1
            self.cusum_failed += 1
            self.cusum = min(self.cusum + detector.up, detector.height)

    def _forget_old(self, began_at: float) -> None:
        """Before counting a call that began at ``began_at``, end the run and the sum if the last counted call is too long ago.

        The begin of the call decides, not its end: timeouts of a minute, one after the other, are one run.
        """
        idle_s = began_at - self.counted_at
        if idle_s > self.run_age_s:
            self.streak = 0
        if idle_s > STALE_S:
            self.cusum = 0

    def counts(self, now: float, rejected: int, total_calls: int, total_failed: int) -> Counts:
        """Return the counts of the window at ``now``, with the given counts of the circuit."""
        window = self.window
        window.roll(now)
        return Counts(
            calls=window.calls,
            failed=window.failed,
            slow=window.slow,
            ignored=window.ignored,
            rejected=rejected,
            wasted_tokens=window.tokens,
            consecutive_failures=self._run(now),
            total_calls=total_calls,
            total_failed=total_failed,
        )

    def _run(self, now: float) -> int:
        """Return the length of the run at ``now``: 0 if it is too old. Only calls that count in a run end an old one."""
        return 0 if now - self.counted_at > self.run_age_s else self.streak

    def breach(self, policy: Policy, now: float) -> Cause | None:
        """Return the breached rule with what it measured. None if no rule is breached at ``now``, or too few agree."""
        return self.confirmed(self._first_breach(policy, now), policy)

    def confirmed(self, cause: Cause | None, policy: Policy) -> Cause | None:
        """Return ``cause`` with the number of those that agree.

        Return None if too few of the processes that called, or of the tools, had bad calls.
        """
        oldest = self.window.oldest
        if cause is not None and policy.minimum_reporters > 1:
            failing = self.failers.count(oldest)
            if cause.rule == "auth_failures":
                failing = len({reporter for _, reporter in self.denied.values()})
            if failing < min(policy.minimum_reporters, self.callers.count(oldest)):
                return None
            cause = msgspec.structs.replace(cause, reporters=failing)
        if cause is not None and policy.minimum_tools > 1:
            failing = self.failing_tools.count(oldest)
            # An idle tool counts: one broken tool must not open the circuit of its server. Of a single tool, its own circuit decides.
            if failing < max(2, len(self.called)):
                return None
            cause = msgspec.structs.replace(cause, tools=failing)
        return cause

    def _first_breach(self, policy: Policy, now: float) -> Cause | None:  # noqa: PLR0911 - one return per rule
        """Return the first breached rule, in the order of the documentation."""
        limits, window, streak = self.limits, self.window, self._run(now)
        calls, weak = window.calls, self.weak.count(window.oldest)
        failed = window.failed - weak
        if streak >= limits.consecutive:
            return Cause("consecutive_failures", float(streak), float(limits.consecutive), streak, failed=streak)
        if failed >= limits.count:
            return self._in_window(policy, "failure_count", failed, limits.count)
        if calls >= limits.minimum_calls:
            share = (failed + weak * WEAK_SHARE) / calls
            if share >= limits.rate:
                cause = self._in_window(policy, "failure_rate", share, limits.rate)
                return msgspec.structs.replace(cause, reason=COUNT_HALF) if weak else cause
            if window.slow / calls >= limits.slow_rate:
                cause = self._in_window(policy, "slow_call_rate", window.slow / calls, limits.slow_rate)
                return msgspec.structs.replace(cause, slow_call_duration_threshold_ms=limits.late_ms)
        if window.tokens >= limits.tokens:
            return self._in_window(policy, "wasted_tokens", window.tokens, limits.tokens)
        if policy.cusum is not None and self.cusum >= limits.cusum.height and now - self.counted_at <= STALE_S:
            return Cause(
                "cusum",
                self.cusum * limits.cusum.unit,
                limits.cusum.height * limits.cusum.unit,
                self.cusum_calls,
                failed=self.cusum_failed,
                tolerable_failure_rate=policy.cusum.tolerable_failure_rate,
                calls_between_false_opens=float(policy.cusum.calls_between_false_opens),
            )
        if self.denied and self._denied_now() >= limits.denied:
            denied, window_s = len(self.denied), float(window.size) if policy.sliding_window_type == "time" else None
            return Cause("auth_failures", float(denied), float(limits.denied), denied, window_s=window_s)
        return None

    def _in_window(self, policy: Policy, rule: str, value: float, threshold: float) -> Cause:
        window_s = float(self.window.size) if policy.sliding_window_type == "time" else None
        sample, failed = self.window.calls, self.window.failed
        return Cause(rule, float(value), float(threshold), sample, failed=failed, window_s=window_s)


class Reporters:
    """The last ``limit`` distinct reporters (processes or tools), each with the stamp (pane or call number) at which it last reported."""

    __slots__ = ("limit", "seen")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen: dict[str, int] = {}
        """The one that reported longest ago comes first."""

    def add(self, name: str, stamp: int) -> None:
        """Note that ``name`` reported at ``stamp``. Stamps never go backwards."""
        seen = self.seen
        if seen.get(name) == stamp:  # the order among equal stamps does not matter
            return
        last = seen.pop(name, None)
        if last is None and len(seen) >= self.limit:
            del seen[next(iter(seen))]
        seen[name] = stamp

    def suffice(self, stamp: int) -> bool:
        """Return whether as many as are counted reported at ``stamp``. Another one then changes no decision."""
        return len(self.seen) >= self.limit and all(each == stamp for each in self.seen.values())

    def count(self, oldest: int) -> int:
        """Forget those before ``oldest``, and return the number of the others."""
        self.seen = {name: stamp for name, stamp in self.seen.items() if stamp >= oldest}
        return len(self.seen)
