"""Export the status of a client as Prometheus metrics. It is read when Prometheus scrapes, so calls don't become slower.

Needs ``prometheus-client`` (extra ``prometheus``).
"""

from __future__ import annotations

import itertools
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from switchgear.arguments import impossible
from switchgear.client import Switchgear
from switchgear.emitter.status import EmitterStatus, SpoolStatus
from switchgear.follower.status import FollowerStatus
from switchgear.guard.fleet_state import GuardMode
from switchgear.guard.rejections import Rejection
from switchgear.guard.turns import PaceStatus
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, Hooks
from switchgear.telemetry.labels import BoundedLabels
from switchgear.telemetry.registry import BUILD, BUILD_TEXT, own_version
from switchgear.telemetry.status import SwitchgearStatus
from switchgear_schemas.enums import CircuitState
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


MOST_CIRCUITS: Final = 1_000
"""The most circuits to export by name. The number by state is always complete."""
MOST_TOOLS: Final = 1_000
"""The most tools that :class:`CallCounts` counts by name. The others are added up as ``(other)``."""
_NOT_INSTALLED: Final = "prometheus-client isn't installed."
_INSTALL: Final = 'Run `pip install "switchgear[prometheus]"`.'


class CallCounts(Hooks):
    """Count calls by tool, from now on: ``Switchgear(..., hooks=[CallCounts()])``.

    With a hook for outcomes a guarded call is slower. Without it, :class:`SwitchgearCollector` exports everything but these counts.

    Args:
        registry: The registry of the counters, the global one by default. It takes one ``CallCounts``, which clients may share.

    Raises:
        SwitchgearError: prometheus-client isn't installed.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            from prometheus_client import REGISTRY, Counter  # noqa: PLC0415 - optional
        except ImportError:
            raise SwitchgearError(_NOT_INSTALLED, hint=_INSTALL) from None

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"switchgear_guard_{name}", text, labels, registry=registry or REGISTRY)

        self._tools = BoundedLabels(MOST_TOOLS)
        self._calls = counter("calls", "Calls that were made.", "tool", "status")
        self._seconds = counter("call_seconds", "Seconds spent in calls.", "tool")
        self._rejections = counter("rejections", "Calls that were refused.", "tool", "source")
        self._fallbacks = counter("fallbacks", "Fallbacks that were called instead.", "tool", "fallback")
        self._transitions = counter("transitions", "Changes of state.", "tool", "source", "state")

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Count the call."""
        tool = self._label(outcome.tool)
        self._calls.labels(tool, outcome.status).inc()
        self._seconds.labels(tool).inc(outcome.duration_ms / 1000)

    def on_rejected(self, rejection: Rejection) -> None:
        """Count the refusal."""
        self._rejections.labels(self._label(rejection.tool), rejection.source).inc()

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Count the fallback."""
        self._fallbacks.labels(self._label(rejection.tool), self._label(tool)).inc()

    def on_transition(self, change: CircuitChange) -> None:
        """Count the change."""
        self._transitions.labels(self._label(change.tool), change.source, change.state).inc()

    def _label(self, tool: str) -> str:
        return self._tools.of(tool)


class _Reading(NamedTuple):
    """The current state of a metric. One whose name ends with ``_total`` is a counter, every other one a gauge."""

    name: str
    description: str
    value: float | Mapping[Any, float]
    """One number, or numbers by the values of the labels."""
    labels: tuple[str, ...] = ()


def _readings(status: SwitchgearStatus) -> Iterator[_Reading]:
    """Return the metrics of one client."""
    yield _Reading(BUILD, BUILD_TEXT, {("client", own_version()): 1}, ("component", "version"))
    modes = {(mode,): mode == status.mode for mode in get_args(GuardMode)}
    yield _Reading("switchgear_guard_mode", "1 for the mode: what decides about calls.", modes, ("mode",))
    yield from _circuits("local", status.local)
    if status.follower is not None:
        yield from _circuits("fleet", status.fleet)
        silent = len(status.owner_silent_s)
        yield _Reading("switchgear_guard_owner_silent_circuits", "Circuits whose owner doesn't answer.", silent)
        yield from _follower(status.follower)
    if status.emitter is not None:
        yield from _emitter(status.emitter)
        if status.emitter.spool is not None:
            yield from _spool(status.emitter.spool)
    yield from _paces(status.paces)
    yield _Reading("switchgear_guard_hook_failures_total", "Exceptions of hooks.", status.hook_failures)
    changes = status.tool_list_changes
    yield _Reading("switchgear_guard_tool_list_changes_total", "Changes of lists of tools shown to models.", changes)
    deaths = len(status.background_deaths)
    yield _Reading("switchgear_guard_background_failed_jobs", "Background jobs that were restarted.", deaths)


def _circuits(source: str, states: Mapping[str, CircuitState]) -> Iterator[_Reading]:
    name = f"switchgear_guard_{source}_circuit"
    by_state = {(state,): count for state, count in Tally(states.values()).items()}
    text = "Circuits by state. Of the process's own circuits, those that aren't closed."
    yield _Reading(f"{name}s", text, by_state, ("state",))
    listed = [each for each in states.items() if each[1] != "closed"][:MOST_CIRCUITS]
    by_name = dict.fromkeys(listed, 1)
    yield _Reading(f"{name}_state", "1 for each circuit that isn't closed.", by_name, ("circuit", "state"))


def _paces(paces: Mapping[str, PaceStatus]) -> Iterator[_Reading]:
    listed = dict(itertools.islice(paces.items(), MOST_TOOLS))

    def reading(name: str, text: str, value: Callable[[PaceStatus], float]) -> _Reading:
        return _Reading(
            f"switchgear_guard_paced_{name}", text, {(tool,): value(each) for tool, each in listed.items()}, ("tool",)
        )

    yield reading(
        "share", "Calls a second that this process may make by the tool's rate limit.", lambda each: each.share or 0.0
    )
    yield reading("waits_total", "Calls that waited for their turn.", lambda each: each.waited)
    yield reading("wait_seconds_total", "Seconds that calls waited for their turn.", lambda each: each.waited_s)
    yield reading("refusals_total", "Calls refused because their turn came too late.", lambda each: each.refused)


def _follower(status: FollowerStatus) -> Iterator[_Reading]:
    if status.age_s is not None:
        yield _Reading("switchgear_guard_fleet_age_seconds", "Seconds since the broker last answered.", status.age_s)
    yield _Reading("switchgear_guard_fleet_stale", "1 while the state may be outdated.", status.stale)
    yield _Reading("switchgear_guard_fleet_loaded", "1 after every circuit was read.", status.loaded)
    if status.lag is not None:
        yield _Reading("switchgear_guard_fleet_lag_records", "Records of circuits not yet read.", status.lag)
    yield _Reading("switchgear_guard_fleet_malformed_total", "Records that aren't circuits.", status.malformed)


def _emitter(status: EmitterStatus) -> Iterator[_Reading]:
    results = {("acknowledged",): status.acknowledged, ("dropped",): status.dropped, ("failed",): status.failed}
    away_s = status.away_s or 0
    yield _Reading("switchgear_emitter_emitted_total", "Events accepted or taken over.", status.emitted)
    yield _Reading("switchgear_emitter_events_total", "Events by result.", results, ("result",))
    yield _Reading("switchgear_emitter_buffered_events", "Events in memory or in flight.", status.buffered)
    yield _Reading("switchgear_emitter_connected", "1 while the producer is connected.", status.connected)
    yield _Reading("switchgear_emitter_away_seconds", "Seconds for which Kafka has taken no event.", away_s)


def _spool(status: SpoolStatus) -> Iterator[_Reading]:
    yield _Reading("switchgear_spool_records", "Events on disk that aren't acknowledged.", status.records)
    yield _Reading("switchgear_spool_bytes", "Bytes on disk.", status.bytes)
    yield _Reading("switchgear_spool_limit_bytes", "The most bytes on disk.", status.limit_bytes)
    yield _Reading("switchgear_spool_in_use", "1 while events go through the spool.", status.in_use)
    yield _Reading("switchgear_spool_unusable", "1 while the spool can't be used.", status.error is not None)
    yield _Reading("switchgear_spool_taken_over_total", "Events of dead processes.", status.taken_over)
    yield _Reading("switchgear_spool_dropped_total", "Events dropped because it was full.", status.dropped)
    yield _Reading("switchgear_spool_damaged_total", "Unreadable parts of the spool.", status.damaged)


class SwitchgearCollector:
    """A collector of one client for a registry: ``REGISTRY.register(SwitchgearCollector(gear))``.

    Args:
        gear: The client.

    Raises:
        SwitchgearError: ``gear`` isn't a client.
    """

    def __init__(self, gear: Switchgear) -> None:
        if not isinstance(gear, Switchgear):
            impossible("gear", "a Switchgear", gear)
        self._gear = gear

    def describe(self) -> Iterable[Metric]:
        """Return the metrics, so that a registry takes each from one collector. The client doesn't start."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return each metric with its current values.

        Raises:
            SwitchgearError: prometheus-client isn't installed.
        """
        try:
            from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - optional
        except ImportError:
            raise SwitchgearError(_NOT_INSTALLED, hint=_INSTALL) from None
        for reading in _readings(self._gear.status()):
            kind = CounterMetricFamily if reading.name.endswith("_total") else GaugeMetricFamily
            family = kind(reading.name, reading.description, labels=reading.labels)
            values = reading.value if isinstance(reading.value, Mapping) else {(): reading.value}
            for labels, value in values.items():
                family.add_metric(labels, float(value))
            yield family
