"""SwitchgearCollector: a client's condition as Prometheus metrics, read from its status when it is scraped.

Needs ``prometheus-client`` (extra ``prometheus``), imported at the first scrape. Costs a call nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from switchgear.call_counts import CallCounts
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from switchgear.client import Switchgear

MODES: Final = ("loading", "fleet", "last_known", "local_only", "deny")
MOST_CIRCUITS: Final = 1_000
"""Circuits that are shown by name, of those that are not closed; the number by state is always complete."""


class SwitchgearCollector:
    """``REGISTRY.register(SwitchgearCollector(gear))``. Several clients in one process: a registry, or a name, for each.

    Args:
        gear: whose condition it is.
        counts: calls and refusals by tool too, where it is one of the client's hooks.
        labels: fixed labels of every metric, such as ``{"client": "planner"}``.
    """

    def __init__(
        self, gear: Switchgear, counts: CallCounts | None = None, *, labels: dict[str, str] | None = None
    ) -> None:
        self._gear = gear
        self._counts = counts
        self._labels = labels or {}

    def describe(self) -> Iterable[Metric]:
        """Nothing: asked when it is registered, when the client need not have been started."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics, as of now.

        Raises:
            SwitchgearError: prometheus-client is not installed.
        """
        gear, status = self._gear, self._gear.status()
        yield self._many(
            "switchgear_guard_mode",
            "1 for who decides now.",
            ["mode"],
            {(mode,): float(mode == status.mode) for mode in MODES},
        )
        yield from self._circuits("local", dict(status.local))
        if status.follower is not None:
            views = gear.circuits()
            states = {each: "forced_open" if view.forced else view.state for each, view in views.items()}
            yield from self._circuits("fleet", states)
            yield from self._follower(status.follower)
            yield self._one(
                "switchgear_guard_owner_silent_circuits",
                "Circuits whose owner does not answer.",
                len(status.owner_silent_s),
            )
        if status.emitter is not None:
            yield from self._emitter(status.emitter)
        yield self._one("switchgear_guard_hook_failures_total", "Exceptions of hooks.", status.hook_failures)
        yield self._one(
            "switchgear_guard_background_failed_jobs",
            "Background jobs that had to be started again.",
            len(status.background_deaths),
        )
        if self._counts is not None:
            yield from self._calls(self._counts)

    def _circuits(self, source: str, states: dict[str, Any]) -> Iterator[Metric]:
        by_state = Counter(states.values())
        yield self._many(
            f"switchgear_guard_{source}_circuits",
            "Circuits by state; of the process's own, those that are not closed.",
            ["state"],
            {(state,): count for state, count in by_state.items()},
        )
        shown = [(each, state) for each, state in states.items() if state != "closed"][:MOST_CIRCUITS]
        yield self._many(
            f"switchgear_guard_{source}_circuit_state",
            "1 for each circuit that is not closed.",
            ["circuit", "state"],
            dict.fromkeys(shown, 1),
        )

    def _follower(self, status: FollowerStatus) -> Iterator[Metric]:
        if status.age_s is not None:
            yield self._one(
                "switchgear_guard_fleet_age_seconds", "Since the broker last answered the follower.", status.age_s
            )
        yield self._one("switchgear_guard_fleet_stale", "1 while the fleet's state may be an old one.", status.stale)
        yield self._one("switchgear_guard_fleet_loaded", "1 when every circuit was read.", status.loaded)
        if status.lag is not None:
            yield self._one("switchgear_guard_fleet_lag_records", "Records of circuits not yet read.", status.lag)
        yield self._one("switchgear_guard_fleet_malformed_total", "Records that are no circuits.", status.malformed)

    def _emitter(self, status: EmitterStatus) -> Iterator[Metric]:
        yield self._one(
            "switchgear_emitter_emitted_total", "Events accepted from callers or taken over.", status.emitted
        )
        yield self._many(
            "switchgear_emitter_events_total",
            "What became of them.",
            ["result"],
            {("acknowledged",): status.acknowledged, ("dropped",): status.dropped, ("failed",): status.failed},
        )
        yield self._one("switchgear_emitter_buffered_events", "In memory or in flight.", status.buffered)
        yield self._one("switchgear_emitter_connected", "1 when a producer is ready.", status.connected)
        yield self._one(
            "switchgear_emitter_away_seconds", "How long Kafka has taken nothing; 0 while it does.", status.away_s or 0
        )
        spool = status.spool
        if spool is not None:
            yield self._one("switchgear_spool_records", "On disk and not acknowledged.", spool.records)
            yield self._one("switchgear_spool_bytes", "On disk.", spool.bytes)
            yield self._one("switchgear_spool_limit_bytes", "Most on disk.", spool.limit_bytes)
            yield self._one("switchgear_spool_in_use", "1 while events go through the disk.", spool.in_use)
            yield self._one("switchgear_spool_unusable", "1 while the disk refuses.", spool.error is not None)
            yield self._one("switchgear_spool_taken_over_total", "Records of dead processes.", spool.taken_over)
            yield self._one("switchgear_spool_dropped_total", "Given up because the spool was full.", spool.dropped)
            yield self._one("switchgear_spool_damaged_total", "Stretches that were not readable.", spool.damaged)

    def _calls(self, counts: CallCounts) -> Iterator[Metric]:
        yield self._many(
            "switchgear_guard_calls_total", "Calls that were made.", ["tool", "status"], dict(counts.calls)
        )
        seconds = {(tool,): spent / 1e6 for tool, spent in dict(counts.microseconds).items()}
        yield self._many("switchgear_guard_call_seconds_total", "Time spent in them.", ["tool"], seconds)
        yield self._many(
            "switchgear_guard_rejections_total", "Calls that were refused.", ["tool", "source"], dict(counts.rejections)
        )
        yield self._many(
            "switchgear_guard_fallbacks_total", "What served instead.", ["tool", "fallback"], dict(counts.fallbacks)
        )
        yield self._many(
            "switchgear_guard_transitions_total",
            "Changes of state.",
            ["tool", "source", "state"],
            dict(counts.transitions),
        )

    def _one(self, name: str, words: str, value: float) -> Metric:
        return self._many(name, words, [], {(): value})

    def _many(self, name: str, words: str, labels: list[str], values: dict[Any, float]) -> Metric:
        try:
            from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - optional
        except ImportError:
            raise SwitchgearError(
                "prometheus-client is not installed.", hint='Run `pip install "switchgear[prometheus]"`.'
            ) from None
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        metric: CounterMetricFamily | GaugeMetricFamily = family(name, words, labels=[*self._labels, *labels])
        for key, value in values.items():
            metric.add_metric([*self._labels.values(), *key], float(value))
        return metric
