"""The Prometheus registry that each of Switchgear's own processes starts with."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

BUILD: Final = "switchgear_build_info"
BUILD_TEXT: Final = "1, with the version of Switchgear and the kind of process."


def own_version() -> str:
    """Return the installed version of Switchgear."""
    return metadata.version("switchgear")


def process_registry(component: str) -> CollectorRegistry:
    """Return a registry with the version of a process, its memory, processor time and open files.

    Args:
        component: The kind of process, such as ``worker``.
    """
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector  # noqa: PLC0415 - optional

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(_Build(component))
    return registry


class _Build:
    def __init__(self, component: str) -> None:
        self._component = component

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - optional

        family = GaugeMetricFamily(BUILD, BUILD_TEXT, labels=("component", "version"))
        family.add_metric((self._component, own_version()), 1)
        yield family
