"""Compare what policies in metrics-only mode would have done with what was done, as ClickHouse has both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from switchgear.policies import PolicySet
from switchgear.policies.glob import matches
from switchgear_cli.reads.formats import count, named
from switchgear_cli.reads.history import Sql, one_of, stored_history
from switchgear_cli.reads.responsive_table import ResponsiveTable, name, number
from switchgear_cli.tune.calls import PastCall, TuneError, read_calls
from switchgear_cli.tune.cost import PricedCall, Prices, price_calls
from switchgear_cli.tune.outages import Calendar, Outage, usual_of
from switchgear_cli.tune.report import usd
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.times import rfc3339

LONG_ENOUGH: Final = timedelta(days=1)
_STAYS: Final = """
SELECT circuit_id, tool_name, argMax(state, version) AS state_now, argMax(mode, version) AS mode_now,
    toString(toUnixTimestamp64Micro(argMax(changed_at, version))) AS since,
    toString(toUnixTimestamp64Milli(maxIf(kafka_timestamp, rule = 'set_policy'))) AS set_at
FROM circuit_transitions GROUP BY circuit_id, tool_name
HAVING state_now = 'metrics_only' AND mode_now = 'metrics_only' ORDER BY circuit_id
"""


class Stay(msgspec.Struct, frozen=True):
    """A circuit that a policy has put into metrics-only mode, and since when, in seconds."""

    circuit_id: str
    tool: str
    since: float


class Judged(msgspec.Struct):
    """What was done with the calls of a circuit, and what its policy would have done.

    Attributes:
        calls: Calls that were made.
        failed: Those that failed.
        refused: Calls that were refused all the same, by the breakers of processes or by commands.
        would_open: Times that the policy would have opened the circuit.
        would_refuse: Calls that it would have refused.
        saved_calls: Those of them that failed, or took longer than the tool's usual calls.
        saved_tokens: Tokens that this would have saved.
        saved_s: Seconds that this would have saved.
        saved_usd: What this would have saved.
        refused_good: Calls that it would have refused, and that succeeded.
        refused_usd: What refusing them would have cost.
    """

    tool: str
    circuit_id: str
    since: str
    calls: int = 0
    failed: int = 0
    refused: int = 0
    would_open: int = 0
    would_refuse: int = 0
    saved_calls: int = 0
    saved_tokens: int = 0
    saved_s: float = 0.0
    saved_usd: float = 0.0
    refused_good: int = 0
    refused_usd: float = 0.0

    @property
    def net_usd(self) -> float:
        """What the policy would have saved, less what it would have cost."""
        return self.saved_usd - self.refused_usd


@dataclass(frozen=True, slots=True)
class Judgement:
    """The circuits of a glob that are in metrics-only mode by policy, and for how long the youngest is."""

    glob: str
    rows: Sequence[Judged]
    shortest: timedelta


def judge(
    api: Sql, glob: str, present: PolicySet, prices: Prices, *, now: datetime, since: datetime | None = None
) -> Judgement:
    """Compare the stored calls with the stored records of what would have opened.

    Args:
        api: The store.
        glob: Name or glob of the tools.
        present: The policies of the file: which errors count as failures.
        prices: What things cost.
        now: The end of the comparison.
        since: Its start, if it is later than the policy.

    Raises:
        TuneError: No circuit of the glob is in metrics-only mode by its policy.
    """
    stays = _stays(api, glob, since)
    if not stays:
        raise TuneError(
            f"No circuit of {glob} is in metrics-only mode by its policy.",
            hint="Set one with `switchgear tune TOOL_GLOB --apply metrics-only`, and judge it after a day.",
        )
    tools = sorted({stay.tool for stay in stays.values()})
    begin = datetime.fromtimestamp(min(stay.since for stay in stays.values()), UTC)
    calls = _calls_by_circuit(api, glob, tools, stays, begin, now)
    opens, refused = _would_open(api, tools, stays), _refused(api, tools, begin)
    rows = [
        _judged(stay, calls.get(stay.circuit_id, []), opens.get(stay.circuit_id, []), present, prices)
        for stay in stays.values()
    ]
    for row in rows:
        row.refused = refused.get(row.tool, 0) if row.circuit_id == id_of(row.tool) else 0
    youngest = max(stay.since for stay in stays.values())
    return Judgement(glob, rows, now - datetime.fromtimestamp(youngest, UTC))


def _stays(api: Sql, glob: str, since: datetime | None) -> dict[str, Stay]:
    least = 0.0 if since is None else since.timestamp()
    found = {}
    for circuit_id, tool, _, _, changed_at, set_at in api.sql(_STAYS)["rows"]:
        if matches(glob, tool):
            began = max(least, int(changed_at) / 1e6, int(set_at) / 1e3)
            found[circuit_id] = Stay(circuit_id, tool, began)
    return found


def _would_open(api: Sql, tools: Sequence[str], stays: Mapping[str, Stay]) -> dict[str, list[Outage]]:
    """Return the times in which each circuit would have been open."""
    answer = api.sql(
        "SELECT circuit_id, toString(toUnixTimestamp64Milli(kafka_timestamp)) AS at,"  # noqa: S608 - quoted names
        " toString(toUnixTimestamp64Micro(assumeNotNull(open_until))) AS until FROM circuit_transitions"
        f" WHERE tool_name IN {one_of(tools)} AND reason = 'would have opened' AND open_until IS NOT NULL"
        " ORDER BY circuit_id, version LIMIT 1 BY circuit_id, version"
    )
    found: dict[str, list[Outage]] = {}
    for circuit_id, at, until in answer["rows"]:
        stay = stays.get(circuit_id)
        if stay is not None and int(at) / 1e3 >= stay.since:
            found.setdefault(circuit_id, []).append(Outage(stay.tool, int(at) / 1e3, int(until) / 1e6))
    return found


def _refused(api: Sql, tools: Sequence[str], begin: datetime) -> dict[str, int]:
    answer = api.sql(
        "SELECT tool_name, sum(if(JSONHas(metadata, 'refused'), JSONExtractUInt(metadata, 'refused'), 1)) AS refused"  # noqa: S608
        f" FROM tool_metrics WHERE tool_name IN {one_of(tools)} AND status = 'rejected'"
        f" AND recorded_at >= fromUnixTimestamp64Micro({round(begin.timestamp() * 1e6)}) GROUP BY tool_name"
    )
    return {tool: int(refused) for tool, refused in answer["rows"]}


def _calls_by_circuit(
    api: Sql, glob: str, tools: Sequence[str], stays: Mapping[str, Stay], begin: datetime, end: datetime
) -> dict[str, list[PastCall]]:
    try:
        log = read_calls(stored_history(api, begin, end, tools), glob)
    except TuneError:
        return {}
    found: dict[str, list[PastCall]] = {}
    for call in log.calls:
        tool = call.event.tool_name
        event = call.event
        ids = (
            id_of(tool, "user", event.user_id or ""),
            id_of(tool, "session", event.session_id or ""),
            id_of(tool, "tenant", event.tenant or ""),
            id_of(tool),
        )
        stay = next((stays[each] for each in ids if each in stays), None)
        if stay is not None and call.ended_at >= stay.since:
            found.setdefault(stay.circuit_id, []).append(call)
    return found


def _judged(
    stay: Stay, calls: Sequence[PastCall], opens: Sequence[Outage], present: PolicySet, prices: Prices
) -> Judged:
    row = Judged(stay.tool, stay.circuit_id, rfc3339(stay.since), calls=len(calls), would_open=len(opens))
    usual, calendar = {stay.tool: usual_of(calls)}, Calendar(opens)
    for call in price_calls(calls, present.effective, calendar, usual, prices):
        failed = not call.good and call.event.status in {"error", "timeout"}
        row.failed += failed
        if call.outage >= 0:
            # it would have let through a call that was under way, and the first one at the end of the wait
            _, start, end = calendar.outages[call.outage]
            if start < _began(call) < end:
                _add(row, call)
    return row


def _add(row: Judged, call: PricedCall) -> None:
    row.would_refuse += 1
    if call.bad:
        row.saved_calls += 1
        row.saved_tokens += call.wasted_tokens
        row.saved_s += call.wasted_s
        row.saved_usd += call.wasted_usd
    if call.good:
        row.refused_good += 1
        row.refused_usd += call.refused_usd


def _began(call: PricedCall) -> float:
    return call.ended_at - (call.event.execution_time_ms or 0.0) / 1000


def table(found: Judgement) -> RenderableType:
    """Return the comparison for a person."""
    shown = ResponsiveTable(
        name("circuit"), number("calls"), number("failed"), number("refused", lesser=3), number("would open"),
        number("would refuse"), number("of them bad", lesser=2), number("good", lesser=1), number("saved, USD"), number("cost, USD"),
    )  # fmt: skip
    for row in found.rows:
        shown.add(
            named(row.circuit_id), count(row.calls), count(row.failed), count(row.refused), count(row.would_open),
            count(row.would_refuse), count(row.saved_calls), count(row.refused_good), usd(row.saved_usd), usd(row.refused_usd),
        )  # fmt: skip
    return Group(shown, "", *(Text(line) for line in sentences(found)))


def sentences(found: Judgement) -> list[str]:
    """Return what follows from the comparison."""
    opens, refuse = sum(row.would_open for row in found.rows), sum(row.would_refuse for row in found.rows)
    net = sum(row.net_usd for row in found.rows)
    minutes = found.shortest / timedelta(minutes=1)
    span = f"{minutes / 60:.0f} h" if minutes >= 120 else f"{minutes:.0f} min"
    did = f"opened {count(opens)} time{'' if opens == 1 else 's'} and refused {count(refuse)} calls"
    said = [
        f"In {span} the policy would have {did}.",
        f"That would have {'saved' if net >= 0 else 'cost'} {usd(abs(net))} USD in all.",
    ]
    if found.shortest < LONG_ENOUGH:
        said.append("A whole day says more.")
    if not opens:
        said.append("It had nothing to do: the calls say nothing for it or against it.")
    elif net > 0:
        said.append(f"To enforce it: switchgear policy set '{named(found.glob)}' mode=enforce")
    else:
        said.append(f"To take it back: switchgear policy clear '{named(found.glob)}'")
    return said


def document(found: Judgement) -> dict[str, Any]:
    """Return the JSON object for a program."""
    rows = [{**msgspec.to_builtins(row), "net_usd": row.net_usd} for row in found.rows]
    return {
        "tool_glob": found.glob,
        "shortest_s": found.shortest.total_seconds(),
        "circuits": rows,
        "says": sentences(found),
    }
