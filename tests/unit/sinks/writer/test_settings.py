"""The writer's metrics."""

from prometheus_client import CollectorRegistry

from switchgear_sinks.writer import WriterMetrics
from switchgear_sinks.writer.settings import MOST_EMITTERS

NAME = "switchgear_sink_wrong_clocks_total"


def test_a_wrong_clock_is_counted_by_the_emitters_name():
    registry = CollectorRegistry()
    metrics = WriterMetrics(registry)
    metrics.count_wrong_clock("host:7:a", "ahead", 3)
    metrics.count_wrong_clock("host:7:a", "no_zone", 1)
    metrics.count_wrong_clock("host:7:a", "ahead", 2)
    assert registry.get_sample_value(NAME, {"emitter": "host:7:a", "clock": "ahead"}) == 5
    assert registry.get_sample_value(NAME, {"emitter": "host:7:a", "clock": "no_zone"}) == 1


def test_a_thousand_emitters_with_wrong_clocks_are_fifty_series():
    registry = CollectorRegistry()
    metrics = WriterMetrics(registry)
    for number in range(1_000):
        metrics.count_wrong_clock(f"host:{number}", "ahead", 1)
    named = [sample for metric in registry.collect() for sample in metric.samples if sample.name == NAME]
    assert len(named) == MOST_EMITTERS + 1
    assert registry.get_sample_value(NAME, {"emitter": "(other)", "clock": "ahead"}) == 950
