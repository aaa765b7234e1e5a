"""No circuit opens or closes without evidence of its rule in the log, and every call is counted once."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import Message, Row
from switchgear_schemas.headers import REKEYED
from tests.simulator.agenda import instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.recount import Call, breached

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


NAME: Final = "opens-with-evidence"
COUNTED: Final = "counted-once"
_FAILURES: Final = frozenset({"transport", "timeout", "server", "rate_limited", "unknown"})
_ANSWERS: Final = frozenset({"tool", "invalid_input"})
_NO_ANSWER: Final = frozenset({"transport", "timeout"})
_FROM_SERVER: Final = frozenset({"tool", "invalid_input", "server", "rate_limited", "auth"})
_OWN: Final = ("generation", "lease_id")
_FAMILYS: Final = ("family_generation", "family_lease_id")
_LATE_S: Final = 300.0
_STAY_S: Final = 30.0
_RULES: Final = frozenset({"cusum", "failure_rate"})
_NEW: Final = {"generation": 0}
"""A circuit of which nothing was published is closed."""


class Evidence:
    """Keeps the calls of each tool and of each server since its circuit last closed, as the log has them."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._calls: dict[str, list[Call]] = defaultdict(list)
        self._resets: dict[str, list[int]] = defaultdict(list)
        self._commands: dict[str, set[int]] = defaultdict(set)
        self._copies: set[bytes] = set()
        self._closed: dict[str, tuple[int, int]] = {}
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.opens: Counter[str] = Counter()
        self.closes = 0
        self.false_opens = 0
        """Opens of a tool that had no outage during the last minute."""

    def executed(self, event: dict[str, Any], message: Message) -> None:
        """Add a message of the executions topic."""
        tool = self._simulation.tool_of[event["tool_name"]]
        if tool.partition != message.partition or self._seen_before(message):
            return
        paced = tool.policy.pace == "enforce"
        self._add(tool.circuit_id, event, message, _counts_for_tool(event, paced=paced), _OWN)
        if tool.server is not None:
            self._add(tool.server.circuit_id, event, message, _counts_for_family(event), _FAMILYS)

    def _add(
        self, circuit_id: str, event: dict[str, Any], message: Message, failed: bool | None, names: tuple[str, str]
    ) -> None:
        """Count an event for a circuit. ``failed`` is None if the result says nothing about its health."""
        counts, (generation, lease_id) = self.counts[circuit_id], names
        recorded = event.get("recorded_at")
        if recorded is not None and message.timestamp / 1000 - instant(recorded) > _LATE_S:
            counts["late"] += 1
            return
        if event["status"] == "rejected":
            counts["rejected"] += 1
            return
        if event["status"] == "overdue":  # a report, and no call
            return
        counts["calls"] += 1
        if failed is None:
            return
        counts["failed"] += failed
        ended = message.timestamp / 1000 if recorded is None else min(message.timestamp / 1000, instant(recorded))
        self._calls[circuit_id].append(
            Call(
                message.timestamp,
                failed,
                event.get("emitter_id", ""),
                event.get(generation),
                event.get(lease_id),
                ended - event.get("execution_time_ms", 0.0) / 1000,
                event["tool_name"],
                message.offset,
            )
        )

    def commanded(self, circuit_id: str, verb: str, message: Message) -> None:
        """Add a message of the commands topic."""
        self.counts[circuit_id]["commands"] += 1
        self._commands[circuit_id].add(message.timestamp)
        if verb == "reset":
            self._resets[circuit_id].append(message.timestamp)

    def published(self, record: dict[str, Any], known: dict[str, Any] | None) -> None:
        """Check a circuit's newest record. ``known`` is the one before."""
        if record["generation"] == (_NEW if known is None else known)["generation"]:
            return  # the state is the same: what it learned is published, too
        state, rule = record["state"], (record["cause"] or {}).get("rule")
        if state in {"open", "closed"} and rule != "command":
            self._justify(record, known, rule)
        elif rule == "command" and not self.counts[record["circuit_id"]]["commands"]:
            raise self._histories.broken(NAME, record["circuit_id"], "a command is its cause, and there was none")
        if state == "open":
            self._opened(record, rule)
        if state == "closed":
            self.closes += 1
            self._close(record)

    def finish(self, rows: dict[str, Row]) -> None:
        """Check at the end that the rows have counted the calls of the log."""
        for tool, counts in self.counts.items():
            row = rows.get(tool)
            if row is None:
                if counts["calls"] or counts["rejected"] or counts["late"]:
                    raise self._histories.broken(COUNTED, tool, f"no row counts its {dict(counts)}")
                continue
            found = {"calls": row.total_calls, "failed": row.total_failed, "late": row.late}
            if row.scope != "family":  # a refusal counts for a family only while it refuses
                found["rejected"] = row.total_rejected
            wanted = {name: counts[name] for name in found}
            if found != wanted:
                raise self._histories.broken(COUNTED, tool, f"the row has {found}, the log {wanted}")

    def _seen_before(self, message: Message) -> bool:
        origin = next((value for name, value in message.headers if name == REKEYED), None)
        if origin is None:
            return False
        if origin in self._copies:
            return True
        self._copies.add(origin)
        return False

    def _opened(self, record: dict[str, Any], rule: str | None) -> None:
        self.opens[rule or ""] += 1
        tool = self._simulation.by_name[record["tool_name"]]
        since = tool.healthy_since(self._simulation.agenda.now)
        if rule in _RULES and since is not None and self._simulation.agenda.now - since > 60:
            self.false_opens += 1

    def _justify(self, record: dict[str, Any], known: dict[str, Any] | None, rule: str | None) -> None:
        tool = record["circuit_id"]
        at_ms = round(instant(record["changed_at"]) * 1000)
        if rule in _RULES or rule == "recovery_failed":
            tools = self._simulation.by_name[record["tool_name"]].policy.minimum_tools
            holds = self._breached(tool, rule or "", at_ms, tools)
        elif rule == "half_open_timeout":
            holds = known is not None and self._ran_out(record, known)
        elif rule in {"probe_failed", "probe_succeeded"}:
            holds = known is not None and self._probed(tool, at_ms, known, failed=rule == "probe_failed")
        else:
            holds = rule == "probes_ignored"
        if not holds:
            what = f"it is {record['state']} by {rule} at {record['changed_at']}, and the log has no such evidence"
            raise self._histories.broken(NAME, record["circuit_id"], what)

    @staticmethod
    def _ran_out(record: dict[str, Any], known: dict[str, Any]) -> bool:
        if known["version"] + 1 < record["version"]:
            return True  # a crash lost the record before, so the beginning of the half-open state is unknown
        return abs(instant(record["changed_at"]) - instant(known["changed_at"]) - _STAY_S) < 0.002

    def _breached(self, tool: str, rule: str, at_ms: int, tools: int) -> bool:
        closed_ms, generation = self._closed.get(tool, (0, 0))
        mine = [call for call in self._calls[tool] if call.generation is None or call.generation >= generation]
        cleared = [closed_ms, *(reset for reset in self._resets[tool] if closed_ms < reset <= at_ms)]
        # Calls of the same millisecond may come before or after it, so both are tried.
        starts = [moment + offset for moment in cleared for offset in (0, 1)]
        commanded = at_ms in self._commands[tool]
        found = [[call for call in mine if call.at_ms >= start] for start in starts]
        if (
            commanded
        ):  # it may have cleared the evidence of calls that are older, and those that came later have its time
            found += [
                [call for call in mine if call.offset > behind]
                for behind in self._simulation.audit.rebuild.behind(tool)
            ]
        return any(breached(rule, calls, at_ms, commanded=commanded, tools=tools) for calls in found)

    def _probed(self, tool: str, at_ms: int, known: dict[str, Any], *, failed: bool) -> bool:
        """Return whether the log has a result at that instant, of a call under a lease or of an unguarded one that began after the wait."""
        until = None if known["open_until"] is None else instant(known["open_until"])
        return any(
            (call.at_ms == at_ms or (at_ms in self._commands[tool] and call.at_ms < at_ms))
            and call.failed is failed
            and (call.lease_id is not None if call.generation is not None else until is None or call.began_s >= until)
            for call in self._calls[tool]
        )

    def _close(self, record: dict[str, Any]) -> None:
        tool = record["circuit_id"]
        at_ms = round(instant(record["changed_at"]) * 1000)
        self._closed[tool] = at_ms, record["generation"]
        self._calls[tool] = [call for call in self._calls[tool] if call.at_ms >= at_ms]
        self._resets[tool] = [reset for reset in self._resets[tool] if reset >= at_ms]

    def lines(self) -> list[str]:
        """Return the results, one line per invariant."""
        opens = ", ".join(f"{rule} {count}" for rule, count in sorted(self.opens.items())) or "none"
        calls = sum(counts["calls"] for counts in self.counts.values())
        return [
            f"{NAME}: held (opens by {opens}; {self.closes} closes; {self.false_opens} opens by a rule without an outage)",
            f"{COUNTED}: held ({calls} calls)",
        ]


def _error_class(event: dict[str, Any]) -> str:
    return event.get("error_class") or ("timeout" if event["status"] == "timeout" else "unknown")


def _counts_for_tool(event: dict[str, Any], *, paced: bool) -> bool | None:
    """Return whether a call failed, or None if it says nothing about its tool, such as the 429 of one whose limit is kept."""
    if event["status"] == "success":
        return False
    kind = _error_class(event)
    if paced and kind == "rate_limited":
        return None
    return True if kind in _FAILURES else False if kind in _ANSWERS else None


def _counts_for_family(event: dict[str, Any]) -> bool | None:
    """Return whether the server gave no answer, or None if that isn't known."""
    if event["status"] == "success":
        return False
    kind = _error_class(event)
    return True if kind in _NO_ANSWER else False if kind in _FROM_SERVER else None
