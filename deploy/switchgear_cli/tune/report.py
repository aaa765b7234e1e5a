"""Say what a search found: a small table, the notes that a reader needs to judge it, and one JSON object for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from switchgear_cli.reads.formats import count, duration
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, number
from switchgear_cli.tune.candidates import Proposal
from switchgear_cli.tune.cost import Cost
from switchgear_cli.tune.study import FEWEST_BAD, FEWEST_CALLS, Evidence, Overlap, Study, Tried
from switchgear_schemas.times import rfc3339

FEW_INCIDENTS: Final = 3
MOST_TABLES: Final = 3
_PARTS: Final = {
    "wasted_usd": "it lets through more calls that waste something",
    "refused_usd": "it refuses more calls that would have succeeded",
    "delay_usd": "it recovers later",
}


def table(found: Study) -> RenderableType:
    """Return the whole report for a person."""
    parts: list[RenderableType] = [Text(line) for line in heading(found)]
    if found.tried:
        parts += ["", _costs(found), ""]
    parts += [Text(line) for line in [*verdict(found), *(f"Note: {note}" for note in notes(found))]]
    if found.proposed and found.proposal is not None:
        parts += ["", *_tables(found.proposal)]
    return Group(*parts)


def _tables(proposal: Proposal) -> list[RenderableType]:
    """Return the proposal as TOML. Of many tables only the first is shown."""
    names = list(proposal.tables)
    if len(names) <= MOST_TABLES:
        return [Text(proposal.toml().rstrip())]
    more = f"… and {count(len(names) - 1)} tables with the slow-call rule of one tool each: --toml FILE writes them."
    return [Text(Proposal({names[0]: proposal.tables[names[0]]}).toml().rstrip()), Text(more)]


def heading(found: Study) -> list[str]:
    """Return what was looked at, in sentences."""
    log, first, last = found.log, found.tuned_on, found.judged_on
    tools = len(log.tools)
    source = "given" if found.known_outages else "estimated"
    what = f"{count(len(log.calls))} calls of {_counted(tools, 'tool')}"
    return [
        f"{what} from {_at(first.first_at)} to {_at(last.last_at)} UTC; {_counted(len(found.outages), 'outage')} {source}.",
        f"Tuned on the first half ({_part(first)}), judged on the second ({_part(last)}).",
    ]


def verdict(found: Study) -> list[str]:
    """Return what is proposed, or why nothing is."""
    if found.verdict == "thin":
        return [
            "Too little evidence: nothing is proposed.",
            f"Each half needs {FEWEST_CALLS} calls, and the first half an outage with {FEWEST_BAD} bad calls.",
        ]
    present, default, best = found.tried[0], found.tried[1], found.tried[found.best]
    judged = (
        f"On the second half it costs {usd(best.judged.total_usd)} USD; the present policy costs "
        f"{usd(present.judged.total_usd)} USD and the built-in default {usd(default.judged.total_usd)} USD."
    )
    if found.verdict == "keep":
        return [f"Keep the present policy: none of the {len(found.tried) - 1} others costs less on the first half."]
    if found.verdict == "better":
        return [f"Proposed: {best.name}. {judged}"]
    if found.verdict == "same":
        return [f"Proposed: {best.name}, for what it saves on the first half. {judged}"]
    return [
        f"Nothing is proposed: {best.name} is the best on the first half only. {judged} Why: {why_worse(present, best)}."
    ]


def why_worse(present: Tried, best: Tried) -> str:
    """Return the part of the cost that grew most on the second half, in words."""
    grew = {name: getattr(best.judged, name) - getattr(present.judged, name) for name in _PARTS}
    return _PARTS[max(grew, key=lambda name: grew[name])]


def notes(found: Study) -> list[str]:
    """Return what limits the result."""
    first, last, log, thin = found.tuned_on, found.judged_on, found.log, found.verdict == "thin"
    failed, incidents = _counted(found.failed, "call"), _counted(first.incidents, "incident")
    candidates = {
        f"{failed} of {count(len(log.calls))} failed, but hardly more at one time than at another: that shows no outage.": (
            thin and found.failed > 0 and not first.outages
        ),
        f"the first half has only {incidents} (outages at one time are one). The next one may be different.": (
            not thin and first.incidents < FEW_INCIDENTS
        ),
        f"the second half has {_part(last)}. It shows what a policy refuses wrongly, but hardly what it saves.": (
            not thin and last.bad < FEWEST_BAD
        ),
        f"{_counted(log.never_made, 'call')} were refused at that time. Their cost is not known.": log.never_made > 0,
        "the calls had no time. Seconds between them, and delays, are made up by --stamp.": log.stamped > 0,
    }
    return [*_overlap(found), *(text for text, holds in candidates.items() if holds)]


def _overlap(found: Study) -> list[str]:
    """Return what the calls show that are independent of the first half."""
    shared = found.overlap
    if shared is None:
        return []
    name, present = found.tried[found.best].name, usd(shared.present.total_usd)
    after = f"On the {_counted(shared.calls, 'call')} after that, {name} costs {usd(shared.best.total_usd)} USD"
    lasted = f"{_counted(shared.outages, 'outage')} lasted from the first half into the second."
    return [f"{lasted} {after}, and the present policy {present} USD."]


def front(found: Study, part: str) -> list[int]:
    """Return the places in ``tried`` that no other beats in both waste and refusals, the least refusing first.

    Args:
        found: The search.
        part: ``tuned`` or ``judged``.
    """
    costs = [getattr(each, part) for each in found.tried]
    order = sorted(range(len(costs)), key=lambda place: (costs[place].refusing_usd, costs[place].wasted_usd, place))
    kept: list[int] = []
    for place in order:
        if not kept or costs[place].wasted_usd < costs[kept[-1]].wasted_usd:
            kept.append(place)
    return kept


def shown(found: Study) -> list[int]:
    """Return the places of the table's rows: present, default, best, and its neighbours on the front of the first half."""
    line = front(found, "tuned")
    at = line.index(found.best) if found.best in line else None
    near = [] if at is None else [*line[max(0, at - 1) : at], *line[at + 1 : at + 2]]
    return list(dict.fromkeys([0, 1, found.best, *near]))


def document(found: Study) -> dict[str, Any]:
    """Return the JSON object for a program."""
    return {
        "tool_glob": found.glob,
        "calls": len(found.log.calls),
        "tools": found.log.tools,
        "outages": [
            {"tool": each.tool, "start": rfc3339(each.start), "end": rfc3339(each.end)} for each in found.outages
        ],
        "outages_given": found.known_outages,
        "tuned_on": _as_json(found.tuned_on),
        "judged_on": _as_json(found.judged_on),
        "prices": msgspec.to_builtins(found.prices),
        "rows": [_row_in_json(found, place) for place in (shown(found) if found.tried else ())],
        "tried": len(found.tried),
        "overlap": None if found.overlap is None else _overlap_in_json(found.overlap),
        "verdict": found.verdict,
        "says": verdict(found),
        "notes": notes(found),
        "proposal": None
        if found.proposal is None or not found.proposed
        else msgspec.to_builtins(found.proposal.tables),
    }


def _costs(found: Study) -> ResponsiveTable:
    tokens = any(found.tried[place].judged.wasted_tokens for place in shown(found))
    table = ResponsiveTable(
        Column("policy"), number("cost, USD"), number("wasted calls"), *([number("tokens", lesser=1)] if tokens else []),
        number("seconds", lesser=2), number("refused good"), number("delay", lesser=3), number("opens"),
        number("false opens", lesser=4), number("cost on 1st half", lesser=5),
    )  # fmt: skip
    for place in shown(found):
        each = found.tried[place]
        cost = each.judged
        table.add(
            _label(found, place),
            usd(cost.total_usd),
            count(cost.wasted_calls),
            *([count(cost.wasted_tokens)] if tokens else []),
            f"{cost.wasted_s:,.1f}",
            count(cost.refused_good),
            duration(cost.delay_s * 1000),
            count(cost.opens),
            count(cost.false_opens),
            usd(each.tuned.total_usd),
        )
    return table


def _label(found: Study, place: int) -> str:
    name = found.tried[place].name
    return f"{name} (best)" if place == found.best else name


def _row_in_json(found: Study, place: int) -> dict[str, Any]:
    each = found.tried[place]
    return {
        "policy": each.name,
        "best": place == found.best,
        "tuned": _cost_in_json(each.tuned),
        "judged": _cost_in_json(each.judged),
    }


def _cost_in_json(cost: Cost) -> dict[str, Any]:
    return {**msgspec.to_builtins(cost), "total_usd": cost.total_usd}


def _overlap_in_json(shared: Overlap) -> dict[str, Any]:
    costs = {"present": _cost_in_json(shared.present), "best": _cost_in_json(shared.best)}
    return {"outages": shared.outages, "calls_after": shared.calls, **costs}


def _as_json(part: Evidence) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(part)
    return {**values, "first_at": rfc3339(part.first_at), "last_at": rfc3339(part.last_at)}


def usd(amount: float) -> str:
    """Return ``1,234``, ``12.34``, ``0.0123`` or ``0``."""
    if abs(amount) >= 1000:
        return f"{amount:,.0f}"
    return f"{amount:.2f}" if abs(amount) >= 0.1 else f"{amount:.2g}"


def _part(part: Evidence) -> str:
    return f"{_counted(part.calls, 'call')}, {_counted(part.outages, 'outage')} with {_counted(part.bad, 'bad call')}"


def _counted(amount: int, what: str) -> str:
    return f"{count(amount)} {what}{'' if amount == 1 else 's'}"


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
