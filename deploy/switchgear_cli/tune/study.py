"""One search, from the calls to the proposal: what is known, what was tried, and what the numbers say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from switchgear.breaker import ResultKind, result_kind
from switchgear.policies import PolicySet
from switchgear_cli.tune.calls import CallLog, PastCall
from switchgear_cli.tune.candidates import DEFAULT, PRESENT, Candidate, Proposal, draw
from switchgear_cli.tune.cost import Cost, PricedCall, Prices, cost_of, price_calls
from switchgear_cli.tune.outages import Calendar, Outage, Usual, estimate_outages, usual_of
from switchgear_cli.tune.search import Parts, Policies, run
from switchgear_schemas.policy import BreakerPolicy

FEWEST_CALLS: Final = 200
"""Calls in each part."""
FEWEST_BAD: Final = 20
"""Bad calls within outages of the first part."""

Verdict = Literal["better", "same", "worse", "keep", "thin"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a part of the history can show."""

    calls: int
    outages: int
    incidents: int
    """Outages of several tools at one time are one incident."""
    bad: int
    failed: int
    slow: int
    first_at: float
    last_at: float

    @property
    def enough(self) -> bool:
        """Whether a policy can be tuned on it."""
        return self.calls >= FEWEST_CALLS and self.outages > 0 and self.bad >= FEWEST_BAD


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate and what it cost on both parts."""

    name: str
    tuned: Cost
    judged: Cost


@dataclass(frozen=True, slots=True)
class Overlap:
    """Outages that lasted from the first part into the second, and what the calls after them cost.

    Only those calls are independent of what the policy was tuned on.
    """

    outages: int
    calls: int
    present: Cost
    best: Cost


@dataclass(frozen=True, slots=True)
class Study:
    """The result of a search.

    Attributes:
        glob: The tools.
        log: The calls.
        known_outages: Whether a person gave the outages, in place of estimates.
        failed: How many of the calls failed, in outages or not.
        outages: The outages that some of the history was in.
        overlap: What the second part shows without the outages that it shares with the first. None if it shares none.
        tuned_on: What the first part can show.
        judged_on: What the second part can show.
        prices: What things cost.
        tried: The present policy, the default, then the candidates. Empty if evidence is thin.
        best: Place in ``tried`` of the one with the least cost on the first part.
        verdict: How the best compares with the present policy on the second part. ``keep``: the present policy is the best.
        proposal: The best candidate as tables, unless it is the present policy.
    """

    glob: str
    log: CallLog
    known_outages: bool
    failed: int
    outages: Sequence[Outage]
    overlap: Overlap | None
    tuned_on: Evidence
    judged_on: Evidence
    prices: Prices
    tried: Sequence[Tried]
    best: int
    verdict: Verdict
    proposal: Proposal | None

    @property
    def proposed(self) -> bool:
        """Whether a policy is proposed."""
        return self.proposal is not None and self.verdict in {"better", "same"}


def study(
    log: CallLog,
    glob: str,
    present: PolicySet,
    *,
    outages: Sequence[Outage] | None,
    prices: Prices,
    candidates: int,
    seed: int,
    processes: int,
    on_start: Callable[[int], None],
    on_done: Callable[[], None],
) -> Study:
    """Search for the policy with the least cost.

    The first half of the calls chooses the candidate, and the second half judges it.

    Args:
        log: The calls.
        glob: Name or glob of the tools.
        present: The policies in force.
        outages: When the tools were down. None estimates it from the calls.
        prices: What things cost.
        candidates: How many policies to try, besides the present one and the default.
        seed: Of the random numbers.
        processes: How many processes work.
        on_start: Called with the number of policies to try.
        on_done: Called after each of them.
    """
    by_tool = _by_tool(log.calls)
    usual, calendar = _truth(by_tool, present, outages)
    priced = price_calls(log.calls, present.effective, calendar, usual, prices)
    middle = len(priced) // 2
    parts = Parts(priced[:middle], priced[middle:], prices)
    tuned_on, judged_on = _evidence(parts.tuned, calendar), _evidence(parts.judged, calendar)
    tried: list[Tried] = []
    best = 0
    verdict: Verdict = "thin"
    proposal: Proposal | None = None
    overlap: Overlap | None = None
    if tuned_on.enough and judged_on.calls >= FEWEST_CALLS:
        slow_ms = _slow_limits(parts.tuned)
        policies_of = {tool: present.effective(tool) for tool in by_tool}
        drawn = [
            PRESENT,
            DEFAULT,
            *draw(
                seed, candidates, list(policies_of.values()), failures=tuned_on.failed > 0, slowness=tuned_on.slow > 0
            ),
        ]
        on_start(len(drawn))
        policies = [_policies(each, policies_of, slow_ms) for each in drawn]
        costs = run(parts, policies, processes=processes, on_done=on_done)
        tried = [Tried(_name(place), *pair) for place, pair in enumerate(costs)]
        best = min(range(len(tried)), key=lambda place: (tried[place].tuned.total_usd, place))
        verdict = _verdict(tried, best)
        overlap = _overlap(parts, calendar, policies[0], policies[best])
        proposal = Proposal.of(drawn[best], glob, slow_ms) if best else None
    return Study(
        glob=glob,
        log=log,
        known_outages=outages is not None,
        failed=sum(_failed(call, present) for call in log.calls),
        outages=calendar.outages,
        overlap=overlap,
        tuned_on=tuned_on,
        judged_on=judged_on,
        prices=prices,
        tried=tried,
        best=best,
        verdict=verdict,
        proposal=proposal,
    )


def _by_tool(calls: Sequence[PastCall]) -> dict[str, list[PastCall]]:
    found: dict[str, list[PastCall]] = {}
    for call in calls:
        found.setdefault(call.event.tool_name, []).append(call)
    return found


def _truth(
    by_tool: Mapping[str, Sequence[PastCall]], present: PolicySet, outages: Sequence[Outage] | None
) -> tuple[dict[str, Usual], Calendar]:
    """Return what is usual for each tool, and the outages: those that are known, or estimates from the whole history."""
    if outages is not None:
        first = min(call.began_at for each in by_tool.values() for call in each)
        last = max(each[-1].ended_at for each in by_tool.values())
        calendar = Calendar(outage for outage in outages if outage.start <= last and outage.end >= first)
        healthy = {tool: [one for one in each if calendar.find(one) is None] for tool, each in by_tool.items()}
        return {tool: usual_of(each) for tool, each in healthy.items()}, calendar
    usual = {tool: usual_of(calls) for tool, calls in by_tool.items()}
    found: list[Outage] = []
    for tool, calls in by_tool.items():
        found += estimate_outages(calls, [_failed(call, present) for call in calls], usual[tool])
    return usual, Calendar(found)


def _failed(call: PastCall, present: PolicySet) -> bool:
    event = call.event
    return result_kind(event.status, event.error_class, present.effective(event.tool_name)) is ResultKind.FAILURE


def _evidence(calls: Sequence[PricedCall], calendar: Calendar) -> Evidence:
    bad = [call for call in calls if call.bad]
    slow = sum(call.good for call in bad)
    seen = {call.outage for call in bad}
    return Evidence(
        calls=len(calls),
        outages=len(seen),
        incidents=_incidents(calendar.outages[place] for place in seen),
        bad=len(bad),
        failed=len(bad) - slow,
        slow=slow,
        first_at=calls[0].ended_at if calls else 0.0,
        last_at=calls[-1].ended_at if calls else 0.0,
    )


def _incidents(outages: Iterable[Outage]) -> int:
    count, until = 0, float("-inf")
    for outage in sorted(outages, key=lambda one: one.start):
        count += outage.start > until
        until = max(until, outage.end)
    return count


def _slow_limits(calls: Sequence[PricedCall]) -> dict[str, float]:
    """Return the usual 99th percentile of each tool, as the first part alone shows it outside outages."""
    healthy: dict[str, list[PastCall]] = {call.event.tool_name: [] for call in calls}
    for call in calls:
        if call.outage < 0:
            healthy[call.event.tool_name].append(PastCall(call.event, call.ended_at))
    return {tool: usual_of(known).slow_ms for tool, known in healthy.items()}


def _policies(candidate: Candidate, presents: Mapping[str, BreakerPolicy], slow_ms: Mapping[str, float]) -> Policies:
    return {tool: candidate.policy(policy, slow_ms.get(tool, 0.0)) for tool, policy in presents.items()}


def _overlap(parts: Parts, calendar: Calendar, present: Policies, best: Policies) -> Overlap | None:
    shared = {call.outage for call in parts.tuned} & {call.outage for call in parts.judged} - {-1}
    if not shared:
        return None
    end = max(calendar.outages[place].end for place in shared)
    after = [call for call in parts.judged if call.ended_at > end]
    costs = (cost_of(after, each.__getitem__, parts.prices) for each in (present, best))
    return Overlap(len(shared), len(after), *costs)


def _name(place: int) -> str:
    return ("present", "default")[place] if place < 2 else f"#{place - 1}"


def _verdict(tried: Sequence[Tried], best: int) -> Verdict:
    """Compare the best with the present policy on the second part."""
    if best == 0:
        return "keep"
    new, old = tried[best].judged.total_usd, tried[0].judged.total_usd
    return "better" if new < old else "same" if new == old else "worse"
