"""SwitchgearCollector: the condition of clients as Prometheus metrics, read from their status when it is scraped.

Needs ``prometheus-client`` (extra ``prometheus``), imported when it is registered. Costs a call nothing.
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
from switchgear.runtime.fork import ForkSafe
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    from switchgear.client import Switchgear


_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class _Client(NamedTuple):
    gear: Switchgear
    counts: CallCounts | None
    labels: dict[str, str]


class SwitchgearCollector:
    """``REGISTRY.register(SwitchgearCollector(gear))``; one in a registry, for a metric may be told of in one place alone.

    Several clients in one process share it, each with labels of its own:
    ``SwitchgearCollector(one, labels={"client": "planner"}).add(other, labels={"client": "writer"})``.

    Args:
        gear: whose condition it is.
        counts: calls and refusals by tool too, where it is one of the client's hooks.
        labels: fixed labels of every metric, such as ``{"client": "planner"}``.

    Raises:
        SwitchgearError: an argument is impossible; the message names it.
    """

    def __init__(
        self, gear: Switchgear, counts: CallCounts | None = None, *, labels: Mapping[str, str] | None = None
    ) -> None:
        self._clients: tuple[_Client, ...] = ()
        self.add(gear, counts, labels=labels)

    def add(
        self, gear: Switchgear, counts: CallCounts | None = None, *, labels: Mapping[str, str] | None = None
    ) -> Self:
        """Show another client too, with the same labels by name and another value of at least one.

        Raises:
            SwitchgearError: an argument is impossible, or nothing would tell this client from one that is shown already.
        """
        if not isinstance(gear, Switchgear):
            raise SwitchgearError(f"A collector is of a Switchgear, not {shown(gear)}.")
        if counts is not None and not isinstance(counts, CallCounts):
            raise SwitchgearError(f"counts is a CallCounts, not {shown(counts)}.")
        found = _checked(labels)
        for client in self._clients:
            if client.labels.keys() != found.keys() or client.labels == found:
                raise SwitchgearError(
                    f"The labels {found} do not tell this client from the one with {client.labels}.",
                    hint='Give each the same names with other values: labels={"client": "planner"}.',
                )
        ordered = {name: found[name] for name in (self._clients[0].labels if self._clients else found)}
        self._clients = (*self._clients, _Client(gear, counts, ordered))
        return self

    def describe(self) -> Iterable[Metric]:
        """Every family without values: asked when it is registered, when no client need have been started."""
        return [self._family(name) for name in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """The metrics, as of now: each once, with the values of every client.

        Raises:
            SwitchgearError: prometheus-client is not installed.
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
                "prometheus-client is not installed.", hint='Run `pip install "switchgear[prometheus]"`.'
            ) from None
        family = FAMILIES[name]
        labels = [*self._clients[0].labels, *family.labels]
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        return kind(name, family.words, labels=labels)


def _checked(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise SwitchgearError(f"labels is a dict, not {shown(labels)}.", hint='labels={"client": "planner"}')
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise SwitchgearError(f"{shown(name)} is no label's name.", hint="Letters, digits and _, such as client.")
        if name in OWN_LABELS:
            raise SwitchgearError(
                f"The label {name} is one of the metrics' own: {', '.join(sorted(OWN_LABELS))}.", hint="Choose another."
            )
        if not isinstance(value, str):
            raise SwitchgearError(f"The value of the label {name} is a string, not {shown(value)}.")
    return dict(labels)


def _encodable(value: str) -> str:
    """A tool may be named with what UTF-8 can't hold; that must not cost the whole scrape."""
    return value.encode(errors="backslashreplace").decode()


MODES: Final = ("loading", "fleet", "last_known", "local_only", "deny")
MOST_CIRCUITS: Final = 1_000
"""Circuits that are shown by name, of those that are not closed; the number by state is always complete."""

Reading = tuple[str, Mapping[Any, float]]
"""A family's name, and its values by the values of its labels."""
_ONE: Final = ()


class Family(NamedTuple):
    """A metric, whoever's it is. One whose name ends in ``_total`` is a counter, any other a gauge."""

    words: str
    labels: tuple[str, ...] = ()


_BY_STATE: Final = Family("Circuits by state; of the process's own, those that are not closed.", ("state",))
_BY_NAME: Final = Family("1 for each circuit that is not closed.", ("circuit", "state"))
FAMILIES: Final[Mapping[str, Family]] = {
    "switchgear_guard_mode": Family("1 for who decides now.", ("mode",)),
    "switchgear_guard_local_circuits": _BY_STATE,
    "switchgear_guard_local_circuit_state": _BY_NAME,
    "switchgear_guard_fleet_circuits": _BY_STATE,
    "switchgear_guard_fleet_circuit_state": _BY_NAME,
    "switchgear_guard_fleet_age_seconds": Family("Since the broker last answered the follower."),
    "switchgear_guard_fleet_stale": Family("1 while the fleet's state may be an old one."),
    "switchgear_guard_fleet_loaded": Family("1 when every circuit was read."),
    "switchgear_guard_fleet_lag_records": Family("Records of circuits not yet read."),
    "switchgear_guard_fleet_malformed_total": Family("Records that are no circuits."),
    "switchgear_guard_owner_silent_circuits": Family("Circuits whose owner does not answer."),
    "switchgear_emitter_emitted_total": Family("Events accepted from callers or taken over."),
    "switchgear_emitter_events_total": Family("What became of them.", ("result",)),
    "switchgear_emitter_buffered_events": Family("In memory or in flight."),
    "switchgear_emitter_connected": Family("1 when a producer is ready."),
    "switchgear_emitter_away_seconds": Family("How long Kafka has taken nothing; 0 while it does."),
    "switchgear_spool_records": Family("On disk and not acknowledged."),
    "switchgear_spool_bytes": Family("On disk."),
    "switchgear_spool_limit_bytes": Family("Most on disk."),
    "switchgear_spool_in_use": Family("1 while events go through the disk."),
    "switchgear_spool_unusable": Family("1 while the disk refuses."),
    "switchgear_spool_taken_over_total": Family("Records of dead processes."),
    "switchgear_spool_dropped_total": Family("Given up because the spool was full."),
    "switchgear_spool_damaged_total": Family("Stretches that were not readable."),
    "switchgear_guard_hook_failures_total": Family("Exceptions of hooks."),
    "switchgear_guard_background_failed_jobs": Family("Background jobs that had to be started again."),
    "switchgear_guard_calls_total": Family("Calls that were made.", ("tool", "status")),
    "switchgear_guard_call_seconds_total": Family("Time spent in them.", ("tool",)),
    "switchgear_guard_rejections_total": Family("Calls that were refused.", ("tool", "source")),
    "switchgear_guard_fallbacks_total": Family("What served instead.", ("tool", "fallback")),
    "switchgear_guard_transitions_total": Family("Changes of state.", ("tool", "source", "state")),
}
OWN_LABELS: Final = frozenset(label for family in FAMILIES.values() for label in family.labels)


def readings(gear: Switchgear, counts: CallCounts | None) -> Iterator[Reading]:
    """The values of one client, as of now, in the order of :data:`FAMILIES`; of those that it has."""
    status, follower = gear.status(), gear._follower  # noqa: SLF001 - gear.circuits() would start a client that nobody uses yet
    yield "switchgear_guard_mode", {(mode,): float(mode == status.mode) for mode in MODES}
    yield from _circuits("local", dict(status.local))
    if status.follower is not None and follower is not None:
        views = follower.table.snapshot()
        states = {each: "forced_open" if view.forced else view.state for each, view in views.items()}
        yield from _circuits("fleet", states)
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
"""Stands for every tool beyond the limit."""

Labels = tuple[str, str]


class CallCounts(Hooks, ForkSafe):
    """Counts since the start, for a metrics system: ``Switchgear(..., hooks=[counts])``. Thread-safe.

    With any hook for outcomes each call goes the long way through the guard; without, the guard is as fast as it can be, and
    :class:`~switchgear.telemetry.prometheus.SwitchgearCollector` shows everything but these numbers.

    Args:
        most_tools: tools that have numbers of their own; the rest are summed up as :data:`OTHER`.
    """

    def __init__(self, *, most_tools: int = 1_000) -> None:
        super().__init__()
        self._most_tools = most_tools
        self._lock = threading.RLock()  # a signal handler may call a tool amid any of these
        self._tools: set[str] = set()
        self.calls: Counter[Labels] = Counter()
        """By tool and status."""
        self.microseconds: Counter[str] = Counter()
        """Time spent in calls, by tool."""
        self.rejections: Counter[Labels] = Counter()
        """By tool and whose circuit refused."""
        self.fallbacks: Counter[Labels] = Counter()
        """By tool and what was called instead."""
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        """By tool, whose circuit, and new state."""

    def on_outcome(self, outcome: CallOutcome) -> None:
        """A call ended."""
        with self._lock:
            tool = self._named(outcome.tool)
            self.calls[tool, outcome.status] += 1
            self.microseconds[tool] += round(outcome.duration_ms * 1000)

    def on_rejected(self, rejection: Rejection) -> None:
        """A call was refused."""
        with self._lock:
            self.rejections[self._named(rejection.tool), rejection.source] += 1

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Something else is called."""
        with self._lock:
            self.fallbacks[self._named(rejection.tool), self._named(tool)] += 1

    def on_transition(self, change: CircuitChange) -> None:
        """A circuit changed its state."""
        with self._lock:
            self.transitions[self._named(change.tool), change.source, change.state] += 1

    def forked(self) -> None:
        """In a child of a fork: its own lock; the counts go on from the parent's."""
        self._lock = threading.RLock()

    def _named(self, tool: str) -> str:
        if tool not in self._tools:
            if len(self._tools) >= self._most_tools:
                return OTHER
            self._tools.add(tool)
        return tool
