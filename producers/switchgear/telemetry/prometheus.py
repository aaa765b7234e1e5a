"""Export the status of clients as Prometheus metrics. It is read when Prometheus scrapes, so calls don't become slower.

Needs ``prometheus-client`` (extra ``prometheus``).
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from switchgear.arguments import shown
from switchgear.client import Switchgear
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear.guard.rejections import Rejection
from switchgear.runtime.fork import call_in_child
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class _Client(NamedTuple):
    gear: Switchgear
    counts: CallCounts | None
    labels: dict[str, str]


class SwitchgearCollector:
    """A collector for a registry: ``REGISTRY.register(SwitchgearCollector(gear))``.

    A registry takes one collector. Several clients of a process share it, each with its own labels:
    ``SwitchgearCollector(one, labels={"client": "planner"}).add(other, labels={"client": "writer"})``.

    Args:
        gear: The client.
        counts: Counts of calls and refusals by tool. It must also be one of the client's hooks.
        labels: Fixed labels of every metric, such as ``{"client": "planner"}``.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(
        self, gear: Switchgear, counts: CallCounts | None = None, *, labels: Mapping[str, str] | None = None
    ) -> None:
        self._clients: tuple[_Client, ...] = ()
        self.add(gear, counts, labels=labels)

    def add(
        self, gear: Switchgear, counts: CallCounts | None = None, *, labels: Mapping[str, str] | None = None
    ) -> Self:
        """Add another client. Its labels have the same names, and at least one has another value.

        Raises:
            SwitchgearError: An argument is impossible, or the labels don't distinguish the client from the others.
        """
        if not isinstance(gear, Switchgear):
            raise SwitchgearError(f"gear is {shown(gear)}.", hint="Give a Switchgear.")
        if counts is not None and not isinstance(counts, CallCounts):
            raise SwitchgearError(f"counts is {shown(counts)}.", hint="Give a CallCounts.")
        found = _checked(labels)
        for client in self._clients:
            if client.labels.keys() != found.keys() or client.labels == found:
                raise SwitchgearError(
                    f"The labels {found} don't distinguish this client from the one with {client.labels}.",
                    hint='Give each client the same names with other values: labels={"client": "planner"}.',
                )
        ordered = {name: found[name] for name in (self._clients[0].labels if self._clients else found)}
        self._clients = (*self._clients, _Client(gear, counts, ordered))
        return self

    def describe(self) -> Iterable[Metric]:
        """Return every family without values. The registry calls it, perhaps before a client starts."""
        return [self._family(name) for name in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """Return each metric once, with the current values of every client.

        Raises:
            SwitchgearError: prometheus-client isn't installed.
        """
        found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for client in self._clients:
            fixed = client.labels.values()
            for name, values in readings(client.gear, client.counts):
                metric = found.get(name)
                if metric is None:
                    metric = found[name] = self._family(name)
                for key, value in values.items():
                    metric.add_metric([_encodable(each) for each in (*fixed, *key)], float(value))
        yield from found.values()

    def _family(self, name: str) -> CounterMetricFamily | GaugeMetricFamily:
        try:
            from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - optional
        except ImportError:
            raise SwitchgearError(
                "prometheus-client isn't installed.", hint='Run `pip install "switchgear[prometheus]"`.'
            ) from None
        family = FAMILIES[name]
        labels = [*self._clients[0].labels, *family.labels]
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        return kind(name, family.description, labels=labels)


def _checked(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise SwitchgearError(f"labels is {shown(labels)}.", hint='Give a dict: labels={"client": "planner"}')
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise SwitchgearError(f"{shown(name)} can't be the name of a label.", hint="Use letters, digits and _.")
        if name in OWN_LABELS:
            raise SwitchgearError(
                f"The label {name} is used by the metrics: {', '.join(sorted(OWN_LABELS))}.", hint="Use another name."
            )
        if not isinstance(value, str):
            raise SwitchgearError(f"The value of the label {name} is {shown(value)}.", hint="Give a string.")
    return dict(labels)


def _encodable(value: str) -> str:
    """Escape what UTF-8 can't encode. A tool may have such a name, and the scrape must not fail."""
    return value.encode(errors="backslashreplace").decode()


MODES: Final = ("loading", "fleet", "last_known", "local_only", "deny")
MOST_CIRCUITS: Final = 1_000
"""The most circuits to export by name. The number by state is always complete."""

Reading = tuple[str, Mapping[Any, float]]
"""The name of a family, and its values by the values of its labels."""
_ONE: Final = ()


class Family(NamedTuple):
    """A metric. One whose name ends with ``_total`` is a counter, every other one a gauge."""

    description: str
    labels: tuple[str, ...] = ()


_BY_STATE: Final = Family("Circuits by state. Of the process's own circuits, those that aren't closed.", ("state",))
_BY_NAME: Final = Family("1 for each circuit that isn't closed.", ("circuit", "state"))
FAMILIES: Final[Mapping[str, Family]] = {
    "switchgear_guard_mode": Family("1 for the mode: what decides about calls.", ("mode",)),
    "switchgear_guard_local_circuits": _BY_STATE,
    "switchgear_guard_local_circuit_state": _BY_NAME,
    "switchgear_guard_fleet_circuits": _BY_STATE,
    "switchgear_guard_fleet_circuit_state": _BY_NAME,
    "switchgear_guard_fleet_age_seconds": Family("Seconds since the broker last answered the follower."),
    "switchgear_guard_fleet_stale": Family("1 while the fleet's state may be outdated."),
    "switchgear_guard_fleet_loaded": Family("1 after every circuit was read."),
    "switchgear_guard_fleet_lag_records": Family("Records of circuits not yet read."),
    "switchgear_guard_fleet_malformed_total": Family("Records that aren't valid circuits."),
    "switchgear_guard_owner_silent_circuits": Family("Circuits whose owner doesn't answer."),
    "switchgear_emitter_emitted_total": Family("Events accepted from callers or taken over from dead processes."),
    "switchgear_emitter_events_total": Family("Events by result.", ("result",)),
    "switchgear_emitter_buffered_events": Family("Events in memory or in flight."),
    "switchgear_emitter_connected": Family("1 while the producer is connected."),
    "switchgear_emitter_away_seconds": Family("Seconds for which Kafka has taken no event. 0 while it does."),
    "switchgear_spool_records": Family("Events on disk that aren't acknowledged."),
    "switchgear_spool_bytes": Family("Bytes on disk."),
    "switchgear_spool_limit_bytes": Family("The most bytes on disk."),
    "switchgear_spool_in_use": Family("1 while events go through the spool."),
    "switchgear_spool_unusable": Family("1 while the spool can't be used."),
    "switchgear_spool_taken_over_total": Family("Events taken over from dead processes."),
    "switchgear_spool_dropped_total": Family("Events dropped because the spool was full."),
    "switchgear_spool_damaged_total": Family("Unreadable parts of the spool."),
    "switchgear_guard_hook_failures_total": Family("Exceptions of hooks."),
    "switchgear_guard_background_failed_jobs": Family("Background jobs that were restarted."),
    "switchgear_guard_calls_total": Family("Calls that were made.", ("tool", "status")),
    "switchgear_guard_call_seconds_total": Family("Seconds spent in calls.", ("tool",)),
    "switchgear_guard_rejections_total": Family("Calls that were refused.", ("tool", "source")),
    "switchgear_guard_fallbacks_total": Family("Fallbacks that were called instead.", ("tool", "fallback")),
    "switchgear_guard_transitions_total": Family("Changes of state.", ("tool", "source", "state")),
}
OWN_LABELS: Final = frozenset(label for family in FAMILIES.values() for label in family.labels)


def readings(gear: Switchgear, counts: CallCounts | None) -> Iterator[Reading]:
    """Return the current values of one client, in the order of :data:`FAMILIES`."""
    status = gear.status()
    yield "switchgear_guard_mode", {(mode,): float(mode == status.mode) for mode in MODES}
    yield from _circuits("local", dict(status.local))
    if status.follower is not None:
        yield from _circuits("fleet", dict(status.fleet))
        yield from _follower(status.follower)
        yield "switchgear_guard_owner_silent_circuits", {_ONE: len(status.owner_silent_s)}
    if status.emitter is not None:
        yield from _emitter(status.emitter)
    yield "switchgear_guard_hook_failures_total", {_ONE: status.hook_failures}
    yield "switchgear_guard_background_failed_jobs", {_ONE: len(status.background_deaths)}
    if counts is not None:
        yield from _calls(counts)


def _circuits(source: str, states: dict[str, Any]) -> Iterator[Reading]:
    by_state = Counter(states.values())
    yield f"switchgear_guard_{source}_circuits", {(state,): count for state, count in by_state.items()}
    shown = [(each, state) for each, state in states.items() if state != "closed"][:MOST_CIRCUITS]
    yield f"switchgear_guard_{source}_circuit_state", dict.fromkeys(shown, 1)


def _follower(status: FollowerStatus) -> Iterator[Reading]:
    if status.age_s is not None:
        yield "switchgear_guard_fleet_age_seconds", {_ONE: status.age_s}
    yield "switchgear_guard_fleet_stale", {_ONE: status.stale}
    yield "switchgear_guard_fleet_loaded", {_ONE: status.loaded}
    if status.lag is not None:
        yield "switchgear_guard_fleet_lag_records", {_ONE: status.lag}
    yield "switchgear_guard_fleet_malformed_total", {_ONE: status.malformed}


def _emitter(status: EmitterStatus) -> Iterator[Reading]:
    yield "switchgear_emitter_emitted_total", {_ONE: status.emitted}
    results = {"acknowledged": status.acknowledged, "dropped": status.dropped, "failed": status.failed}
    yield "switchgear_emitter_events_total", {(result,): count for result, count in results.items()}
    yield "switchgear_emitter_buffered_events", {_ONE: status.buffered}
    yield "switchgear_emitter_connected", {_ONE: status.connected}
    yield "switchgear_emitter_away_seconds", {_ONE: status.away_s or 0}
    spool = status.spool
    if spool is not None:
        yield "switchgear_spool_records", {_ONE: spool.records}
        yield "switchgear_spool_bytes", {_ONE: spool.bytes}
        yield "switchgear_spool_limit_bytes", {_ONE: spool.limit_bytes}
        yield "switchgear_spool_in_use", {_ONE: spool.in_use}
        yield "switchgear_spool_unusable", {_ONE: spool.error is not None}
        yield "switchgear_spool_taken_over_total", {_ONE: spool.taken_over}
        yield "switchgear_spool_dropped_total", {_ONE: spool.dropped}
        yield "switchgear_spool_damaged_total", {_ONE: spool.damaged}


def _calls(counts: CallCounts) -> Iterator[Reading]:
    yield "switchgear_guard_calls_total", dict(counts.calls)
    seconds = {(tool,): spent / 1e6 for tool, spent in dict(counts.microseconds).items()}
    yield "switchgear_guard_call_seconds_total", seconds
    yield "switchgear_guard_rejections_total", dict(counts.rejections)
    yield "switchgear_guard_fallbacks_total", dict(counts.fallbacks)
    yield "switchgear_guard_transitions_total", dict(counts.transitions)


OTHER: Final = "(other)"
"""The name for all tools beyond the limit."""

Labels = tuple[str, str]


class CallCounts(Hooks):
    """Count calls since the start of the process: ``Switchgear(..., hooks=[counts])``. Thread-safe.

    With a hook for outcomes a guarded call is slower. Without it, :class:`SwitchgearCollector` exports everything but these counts.

    Args:
        most_tools: The most tools with their own counts. The others are added up as :data:`OTHER`.
    """

    def __init__(self, *, most_tools: int = 1_000) -> None:
        self._most_tools = most_tools
        self._replace_lock()
        call_in_child(self._replace_lock)
        self._tools: set[str] = set()
        self.calls: Counter[Labels] = Counter()
        """By tool and status."""
        self.microseconds: Counter[str] = Counter()
        """Microseconds spent in calls, by tool."""
        self.rejections: Counter[Labels] = Counter()
        """By tool and source of the refusal."""
        self.fallbacks: Counter[Labels] = Counter()
        """By tool and fallback."""
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        """By tool, source and new state."""

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Count the call."""
        with self._lock:
            tool = self._named(outcome.tool)
            self.calls[tool, outcome.status] += 1
            self.microseconds[tool] += round(outcome.duration_ms * 1000)

    def on_rejected(self, rejection: Rejection) -> None:
        """Count the refusal."""
        with self._lock:
            self.rejections[self._named(rejection.tool), rejection.source] += 1

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Count the fallback."""
        with self._lock:
            self.fallbacks[self._named(rejection.tool), self._named(tool)] += 1

    def on_transition(self, change: CircuitChange) -> None:
        """Count the change."""
        with self._lock:
            self.transitions[self._named(change.tool), change.source, change.state] += 1

    def _replace_lock(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call a tool while this thread holds it

    def _named(self, tool: str) -> str:
        if tool not in self._tools:
            if len(self._tools) >= self._most_tools:
                return OTHER
            self._tools.add(tool)
        return tool
