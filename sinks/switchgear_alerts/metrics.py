"""The Prometheus metrics of alerts, on a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from switchgear.telemetry.registry import process_registry


class AlertsMetrics:
    """The counters and gauges of one process.

    Args:
        receivers: Their names: each has its series from the start.
    """

    def __init__(self, receivers: Iterable[str]) -> None:
        self.registry = process_registry("alerts")

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"switchgear_alerts_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"switchgear_alerts_{name}", text, labels, registry=self.registry)

        self.delivered = counter("delivered_total", "Messages that the receiver took.", "receiver")
        self.failed = counter("failed_total", "Tries that the receiver did not take.", "receiver")
        self.retried = counter("retried_total", "Tries after the first one.", "receiver")
        self.dead = counter("dead_total", "Messages given up, in the dead-letter file.", "receiver")
        self.undelivered = gauge("undelivered_messages", "Messages made and not yet delivered.", "receiver")
        self.incidents = gauge("incidents_open", "Open incidents.")
        self.waiting = gauge("changes_waiting", "Changes of incidents that no receiver has yet.")
        self.lag = gauge("lag_records", "Records of the circuits topic that are not read yet.")
        self.active = gauge("active", "1 if this process sends the alerts, 0 if it waits to take over.")
        self.unreadable = counter("unreadable_records_total", "Records of the circuits topic that were skipped.")
        self._receivers = tuple(receivers)
        for name in self._receivers:
            for each in (self.delivered, self.failed, self.retried, self.dead, self.undelivered):
                each.labels(name)

    def end(self) -> None:
        """Set the gauges of a process that sends no more. The one that takes over exports them."""
        for each in (self.active, self.incidents, self.waiting, self.lag):
            each.set(0)
        for name in self._receivers:
            self.undelivered.labels(name).set(0)
