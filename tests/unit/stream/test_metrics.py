"""The worker's series by circuit: closed circuits have one, users' and sessions' circuits have none, and their number is limited."""

from __future__ import annotations

from importlib import metadata

from switchgear_stream import metrics as metrics_module
from switchgear_stream.metrics import WorkerMetrics


def series(metrics: WorkerMetrics) -> dict[str, str]:
    """Return the exported state of each circuit."""
    (family,) = [each for each in metrics.registry.collect() if each.name == "switchgear_worker_circuit_state"]
    assert all(sample.value == 1 for sample in family.samples)
    return {sample.labels["circuit"]: sample.labels["state"] for sample in family.samples}


def test_every_circuit_has_one_series_with_its_present_state():
    metrics = WorkerMetrics()
    assert series(metrics) == {}
    states = {"search": "open", "fetch": "closed"}
    metrics.circuit_states.listed = states.items
    assert series(metrics) == {"search": "open", "fetch": "closed"}
    states["search"] = "half_open"
    assert series(metrics) == {"search": "half_open", "fetch": "closed"}


def test_circuits_beyond_the_limit_have_no_series(monkeypatch):
    monkeypatch.setattr(metrics_module, "MOST_CIRCUITS", 2)
    metrics = WorkerMetrics()
    metrics.circuit_states.listed = lambda: [("down", "open"), ("a", "closed"), ("b", "closed")]
    assert list(series(metrics)) == ["down", "a"]


def test_version_of_the_worker_is_exported():
    labels = {"component": "worker", "version": metadata.version("switchgear")}
    assert WorkerMetrics().registry.get_sample_value("switchgear_build_info", labels) == 1
