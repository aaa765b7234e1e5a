"""The worker's Prometheus metrics, on a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from switchgear.telemetry.registry import process_registry

STATES: Final = ("closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
MOST_CIRCUITS: Final = 1_000
"""The most circuits that one worker exports by name."""


class CircuitStates:
    """A collector with one series per circuit, read at each scrape. A closed circuit has a series, too.

    Attributes:
        listed: Returns the id and the state of each circuit. Those that are not closed come first.
    """

    def __init__(self) -> None:
        self.listed: Callable[[], Iterable[tuple[str, str]]] = tuple

    def collect(self) -> Iterator[Metric]:
        """Return the series of the first :data:`MOST_CIRCUITS` circuits."""
        family = GaugeMetricFamily(
            "switchgear_worker_circuit_state",
            f"1 for the state of each circuit of a tool or a family; {MOST_CIRCUITS} circuits at most, closed ones last.",
            labels=("circuit", "state"),
        )
        for each in islice(self.listed(), MOST_CIRCUITS):
            family.add_metric(each, 1)
        yield family


class WorkerMetrics:
    """The counters and gauges of one worker process. The exact totals of a circuit are in its row."""

    def __init__(self) -> None:
        self.registry = process_registry("worker")
        self.circuit_states = CircuitStates()
        self.registry.register(self.circuit_states)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"switchgear_worker_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"switchgear_worker_{name}", text, labels, registry=self.registry)

        self.executions = counter("executions_total", "Executions folded into circuits.")
        self.commands = counter("commands_total", "Commands applied.")
        self.duplicates = counter("duplicates_total", "Replayed messages that the offset fence skipped.")
        self.resent = counter(
            "resent_total",
            "Events marked as sent again: copy (counted before), first (counted now), unknown (not looked up in time, counted now).",
            "found",
        )
        for found in ("copy", "first", "unknown"):
            self.resent.labels(found)
        self.late = counter("late_total", "Executions that arrived too late to be counted.")
        self.dead_letters = counter("dead_letters_total", "Messages sent to the dead letters.")
        self.lost_letters = counter(
            "dead_letters_refused_total", "Dead letters that their topic refused for their size."
        )
        self.unforeseen = counter("unforeseen_total", "Dead letters of messages that made the fold fail: report them.")
        self.unreadable = counter(
            "unreadable_state_records_total", "Records of the state topics that no worker wrote, by topic.", "topic"
        )
        self.rekeyed = counter("rekeyed_total", "Messages sent on to the partition of their tool.")
        self.rewinds = counter("rewinds_total", "Batches read again because records before them were missing.")
        self.retired = counter("retired_total", "Idle circuits that made room for others.")
        self.leases = counter("leases_total", "Probe leases granted.")
        self.records = counter("circuit_records_total", "Circuit records published, by state.", "state")
        self.rebalances = counter("rebalances_total", "Assignments of partitions received.")
        self.batch_seconds = Histogram(
            "switchgear_worker_batch_seconds",
            "From a batch's arrival to its acknowledgement by the broker.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
            registry=self.registry,
        )
        self.batch_records = Histogram(
            "switchgear_worker_batch_records",
            "Records in a batch.",
            buckets=(1, 10, 100, 500, 1000, 2000, 5000),
            registry=self.registry,
        )
        self.circuits = gauge("circuits", "Circuits that this worker owns, by state.", "state")
        self.table_rows = gauge("table_rows", "Rows of the table.")
        self.stale_rows = gauge("stale_rows", "Rows of a former owner that recoveries ignored.")
        self.partitions = gauge("partitions", "Partitions that this worker owns.")
        self.lag = gauge("lag_records", "Records not yet folded, of the partitions that this worker owns.", "topic")
        self.last_progress = gauge(
            "last_progress_age_seconds", "Seconds since a batch was last finished; 0 without lag."
        )
        self.ready = gauge("ready", "1 when partitions are assigned and recovered.")

    def observe_circuits(self, found: Mapping[str, int]) -> None:
        """Set the gauges of circuits by state."""
        for state in STATES:
            self.circuits.labels(state).set(found.get(state, 0))
