"""SwitchgearCollector: the condition of clients as Prometheus metrics, read from their status when it is scraped.

Needs ``prometheus-client`` (extra ``prometheus``), imported when it is registered. Costs a call nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from switchgear.arguments import shown
from switchgear.call_counts import CallCounts
from switchgear.client import Switchgear
from switchgear.metric_readings import FAMILIES, OWN_LABELS, readings
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
