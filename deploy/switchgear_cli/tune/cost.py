"""What a policy costs on a history: waste while a tool was down, good calls refused, and the delay of recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from switchgear.breaker import ResultKind, result_kind
from switchgear_api.replay import Fold
from switchgear_cli.tune.calls import PastCall
from switchgear_cli.tune.outages import Calendar, Usual
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import Execution


@dataclass(frozen=True, slots=True)
class Prices:
    """What things cost, in US dollars.

    Attributes:
        token_usd: A token of a failed call. A call that recorded its own ``cost_usd`` counts with that instead.
        second_usd: A second that a caller waits. The default is 36 dollars an hour.
        refused_usd: A refused call that would have succeeded. None: as much as a usual good call of the tool costs, because
            the caller makes it again.
        delay_usd: A second in which a tool works again, and its circuit still refuses a good call.
    """

    token_usd: float = 0.000_003
    second_usd: float = 0.01
    refused_usd: float | None = None
    delay_usd: float = 0.001


class PricedCall(msgspec.Struct, frozen=True, gc=False):
    """A call and what it costs, if it is made and if it is refused.

    Attributes:
        event: The call.
        ended_at: When it ended.
        outage: Number of the outage that it was in. -1 outside outages.
        bad: It wastes something: it failed while the tool was down, or took longer than the tool's usual calls.
        wasted_tokens: Tokens that are wasted if it is made.
        wasted_s: Seconds that are wasted if it is made. Of a slow call that succeeded, those above the tool's median.
        wasted_usd: All that is wasted if it is made.
        good: It succeeded, so refusing it costs something.
        refused_usd: The cost of refusing it.
    """

    event: Execution
    ended_at: float
    outage: int
    bad: bool
    wasted_tokens: int
    wasted_s: float
    wasted_usd: float
    good: bool
    refused_usd: float


class Cost(msgspec.Struct):
    """What a policy did with a history, and what it cost."""

    calls: int = 0
    wasted_calls: int = 0
    wasted_tokens: int = 0
    wasted_s: float = 0.0
    wasted_usd: float = 0.0
    refused_good: int = 0
    refused_usd: float = 0.0
    delay_s: float = 0.0
    delay_usd: float = 0.0
    waited_s: float = 0.0
    """Seconds that calls waited for their turn, by a kept rate limit."""
    waited_usd: float = 0.0
    opens: int = 0
    false_opens: int = 0

    @property
    def total_usd(self) -> float:
        """The sum of the four parts. A millionth of a dollar is the finest difference."""
        return round(self.wasted_usd + self.refused_usd + self.delay_usd + self.waited_usd, 6)

    @property
    def refusing_usd(self) -> float:
        """What refusing cost: good calls, the delay of recovery, and calls that waited for their turn."""
        return round(self.refused_usd + self.delay_usd + self.waited_usd, 6)


def price_calls(
    calls: Sequence[PastCall],
    present_of: Callable[[str], BreakerPolicy],
    calendar: Calendar,
    usual: Mapping[str, Usual],
    prices: Prices,
) -> list[PricedCall]:
    """Return the calls with their costs. Which of them failed is the present policy's decision, for every candidate alike."""
    outcomes = [result_kind(one.event.status, one.event.error_class, present_of(one.event.tool_name)) for one in calls]
    refusal = _refusals(calls, outcomes, prices)
    priced = []
    for call, kind in zip(calls, outcomes, strict=True):
        tool = call.event.tool_name
        outage = calendar.find(call)
        failed, good = kind is ResultKind.FAILURE, kind is ResultKind.SUCCESS
        slow = good and call.duration_ms > usual[tool].slow_ms
        bad = outage is not None and (failed or slow)
        tokens = call.tokens if bad and failed else 0
        excess_ms = call.duration_ms - (0.0 if failed else usual[tool].median_ms)
        seconds = max(0.0, excess_ms / 1000) if bad else 0.0
        money = _money(call, prices) if tokens or (bad and failed) else 0.0
        priced.append(
            PricedCall(
                event=call.event,
                ended_at=call.ended_at,
                outage=-1 if outage is None else outage,
                bad=bad,
                wasted_tokens=tokens,
                wasted_s=seconds,
                wasted_usd=money + seconds * prices.second_usd,
                good=good,
                refused_usd=refusal[tool] if good else 0.0,
            )
        )
    return priced


def _money(call: PastCall, prices: Prices) -> float:
    return call.event.cost_usd or call.tokens * prices.token_usd


def _refusals(calls: Sequence[PastCall], outcomes: Sequence[ResultKind], prices: Prices) -> dict[str, float]:
    """Return what refusing a good call costs, by tool."""
    sums: dict[str, list[float]] = {}
    for call, kind in zip(calls, outcomes, strict=True):
        known = sums.setdefault(call.event.tool_name, [0.0, 0.0])
        if kind is ResultKind.SUCCESS:
            known[0] += _money(call, prices) + call.duration_ms / 1000 * prices.second_usd
            known[1] += 1
    if prices.refused_usd is not None:
        return dict.fromkeys(sums, prices.refused_usd)
    return {tool: total / max(1.0, count) for tool, (total, count) in sums.items()}


def cost_of(calls: Sequence[PricedCall], policy_of: Callable[[str], BreakerPolicy], prices: Prices) -> Cost:
    """Fold the calls through a policy, with every circuit closed at the start, and return what it cost."""
    fold = Fold(policy_of)
    summary, refused = fold.summary, fold.summary.refused
    cost = Cost(calls=len(calls))
    opened_in: dict[str, int] = {}  # the outage in which the circuits of a tool opened
    late: set[tuple[str, int]] = set()  # seconds in which a tool worked again and a good call was refused
    for call in calls:
        before, opens = refused.calls, summary.opens
        for _ in fold.add(call.event, call.ended_at):
            pass
        if summary.opens != opens:
            opened_in[call.event.tool_name] = call.outage
            cost.false_opens += call.outage < 0
        if refused.calls == before:
            if call.bad:
                cost.wasted_calls += 1
                cost.wasted_tokens += call.wasted_tokens
                cost.wasted_s += call.wasted_s
                cost.wasted_usd += call.wasted_usd
        elif call.good:
            tool = call.event.tool_name
            cost.refused_good += 1
            cost.refused_usd += call.refused_usd
            if call.outage >= 0:
                opened_in[tool] = call.outage
            elif opened_in.get(tool, -1) >= 0:
                late.add((tool, int(call.ended_at - (call.event.execution_time_ms or 0.0) / 1000)))
    cost.opens = summary.opens
    cost.delay_s = float(len(late))
    cost.delay_usd = cost.delay_s * prices.delay_usd
    cost.waited_s = summary.paced.seconds_waited
    cost.waited_usd = cost.waited_s * prices.second_usd
    return cost
