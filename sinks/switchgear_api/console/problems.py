"""Which part of the system is dead, late or away: since when, what that means for decisions, and what to do. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from switchgear_api.console import shapes
from switchgear_api.console.records import iso
from switchgear_api.console.shapes import Level

LATE_S: Final = 15.0
"""What does not answer, or does not get on, for so long is a problem."""
MOST_LAG: Final = 10_000
"""Fewer records that wait are no problem."""

_FROZEN: Final = "Circuits have not changed since then. Each process decides alone; it probes an open circuit after 30 s without an answer."
_STORED_UNTIL: Final = "Decisions go on. What is stored and shown ends there; Kafka keeps the calls until a sink runs."
_LOG: Final = "Look at its log."


@dataclass(frozen=True, slots=True)
class Group:
    """What one look found out about a consumer group.

    Args:
        members: Its processes.
        lag: Records that they have not processed.
        moved_at: When one of them last got on, as far as it was seen.
        stands_s: How long records have arrived without one being processed; 0 if they are.
        behind_s: How long its records have waited, at the rate of the last seconds. None if that is not known.
    """

    members: int
    lag: int = 0
    moved_at: datetime | None = None
    stands_s: float = 0.0
    behind_s: float | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A process that the setting ``console_servers`` names, and why it is not ready; None if it is.

    Its kind is the beginning of its name: worker, gateway, sink or alerts.
    """

    name: str
    why: str | None = None

    @property
    def kind(self) -> str:
        """The component that it belongs to."""
        return next((kind for kind in _SERVERS if self.name.startswith(kind)), "server")

    @property
    def said(self) -> str:
        """A sentence about it."""
        return f"{self.name} is not ready: {(self.why or '').rstrip('.')}."


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found out. None: it is not known, and nothing is said about it.

    Args:
        at: When.
        kafka_silent_s: How long the brokers have not answered.
        circuits_changed_at: When a circuit last changed.
        worker: The workers.
        sink: The sinks.
        alerts_members: Processes that send alerts, if one ever did.
        store_silent_s: How long ClickHouse has not answered.
        servers: The processes with a name.
    """

    at: datetime
    kafka_silent_s: float | None = None
    circuits_changed_at: datetime | None = None
    worker: Group | None = None
    sink: Group | None = None
    alerts_members: int | None = None
    store_silent_s: float = 0.0
    servers: tuple[Server, ...] = ()

    def unready(self, kind: str) -> list[Server]:
        """Return the named processes of a kind that are not ready."""
        return [each for each in self.servers if each.kind == kind and each.why is not None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One component that does not work.

    Args:
        component: worker, sink, kafka, clickhouse, gateway, alerts or server.
        level: ``bad`` if decisions or what is shown suffer, else ``note``.
        what: What is wrong, a sentence.
        means: What that means for decisions.
        todo: What to do.
        since: Since when at the latest. None: since it was first seen.
        name: The process, where there are several.
    """

    component: str
    level: Level
    what: str
    means: str
    todo: str
    since: datetime | None = None
    name: str = ""

    @property
    def key(self) -> str:
        """The same for the same problem in every look."""
        return f"{self.component} {self.name}"


def problems(seen: Seen) -> list[Problem]:
    """Return what is wrong, the worst for decisions first."""
    return [*_kafka(seen), *_worker(seen), *_sink(seen), *_store(seen), *_named(seen), *_alerts(seen)]


def since_when(
    found: Iterable[Problem], began: Mapping[str, datetime], at: datetime
) -> tuple[list[shapes.Problem], dict[str, datetime]]:
    """Return the problems as the API answers them, and since when each is known, for the next look.

    Args:
        found: The problems of a look.
        began: Since when each problem was known before it, by key. One that is gone is forgotten.
        at: When the look was.
    """
    known = {each.key: min(began.get(each.key, at), each.since or at) for each in found}
    return [
        {
            "component": each.component,
            "level": each.level,
            "what": each.what,
            "since": iso(known[each.key]),
            "means": each.means,
            "todo": each.todo,
        }
        for each in found
    ], known


def without_names(found: Sequence[shapes.Problem]) -> list[shapes.Problem]:
    """Return the problems for a reader who may not know the names and addresses of processes."""
    return [{**each, "what": _GENERAL[each["component"]]} for each in found]


_GENERAL: Final = {
    "kafka": "Kafka does not answer.",
    "worker": "The workers do not do their work.",
    "sink": "The sinks do not do their work.",
    "clickhouse": "ClickHouse does not answer.",
    "gateway": "A gateway is not ready.",
    "alerts": "No process sends alerts.",
    "server": "A process is not ready.",
}


def _kafka(seen: Seen) -> Iterator[Problem]:
    if seen.kafka_silent_s is not None and seen.kafka_silent_s >= LATE_S:
        yield Problem(
            "kafka",
            "bad",
            "Kafka does not answer.",
            "The last known circuits hold for 5 minutes, then each process decides alone. Calls wait in the processes that made them.",
            "Look at the brokers: switchgear doctor.",
            seen.at - timedelta(seconds=seen.kafka_silent_s),
        )


def _worker(seen: Seen) -> Iterator[Problem]:
    group, unready = seen.worker, seen.unready("worker")
    named = [each for each in seen.servers if each.kind == "worker"]
    words = "".join(f" {each.said}" for each in unready[:3])
    if group is not None and not group.members:
        yield Problem("worker", "bad", f"No worker runs.{words}", _FROZEN, "Start one: switchgear worker.", _last(seen))
    elif unready and len(unready) == len(named):
        yield Problem("worker", "bad", words.strip(), _FROZEN, _LOG, _last(seen))
    elif group is not None and group.lag and group.stands_s > LATE_S:
        what = f"The workers stand still: {group.lag:,} records wait.{words}"
        yield Problem("worker", "bad", what, _FROZEN, "Look at their logs, and restart them.", _last(seen))
    elif group is not None and _late(group):
        yield Problem(
            "worker",
            "bad",
            f"The workers are {group.lag:,} records behind.{words}",
            f"Circuits show what was true {_ago(group)} ago.",
            "Start another: switchgear worker.",
        )
    else:
        for each in unready:
            means = "Other workers take over its tools within 20 s."
            yield Problem("worker", "note", each.said, means, _LOG, name=each.name)


def _sink(seen: Seen) -> Iterator[Problem]:
    group = seen.sink
    if group is None:
        return
    if not group.members:
        yield Problem("sink", "bad", "No sink runs.", _STORED_UNTIL, "Start one: switchgear sink.", group.moved_at)
    elif group.lag and group.stands_s > LATE_S:
        what = f"The sinks stand still: {group.lag:,} records wait."
        yield Problem("sink", "bad", what, _STORED_UNTIL, "Look at their logs, and restart them.", group.moved_at)
    elif _late(group):
        means = f"Decisions go on. Numbers show what was true {_ago(group)} ago."
        todo = "Start another: switchgear sink."
        yield Problem("sink", "bad", f"The sinks are {group.lag:,} records behind.", means, todo)


def _store(seen: Seen) -> Iterator[Problem]:
    if seen.store_silent_s >= LATE_S:
        means = "Decisions go on. Numbers, errors and calls are old or missing."
        since = seen.at - timedelta(seconds=seen.store_silent_s)
        yield Problem(
            "clickhouse", "bad", "ClickHouse does not answer.", means, "Look at it: switchgear doctor.", since
        )


_SERVERS: Final[Mapping[str, tuple[Level, str]]] = {
    "worker": ("bad", _FROZEN),
    "gateway": ("bad", "Its clients decide alone after 45 s, and their calls wait in them."),
    "sink": ("bad", "Decisions go on. It stores and answers nothing."),
    "alerts": ("note", "Decisions go on. It tells nobody of outages."),
}
"""What it means that a named process is not ready."""


def _named(seen: Seen) -> Iterator[Problem]:
    for each in seen.servers:
        if each.why is not None and each.kind != "worker":
            level, means = _SERVERS.get(each.kind, ("bad", "What it does stands still."))
            yield Problem(each.kind, level, each.said, means, _LOG, name=each.name)


def _alerts(seen: Seen) -> Iterator[Problem]:
    if seen.alerts_members == 0 and not seen.unready("alerts"):
        means = "Decisions go on. Nobody is told of outages."
        yield Problem("alerts", "note", "No process sends alerts.", means, "Start one: switchgear alerts run.")


def _last(seen: Seen) -> datetime | None:
    """Return the last sign of work of a worker."""
    signs = [seen.circuits_changed_at, None if seen.worker is None else seen.worker.moved_at]
    return max((each for each in signs if each is not None), default=None)


def _late(group: Group) -> bool:
    return group.lag > MOST_LAG and group.behind_s is not None and group.behind_s > LATE_S


def _ago(group: Group) -> str:
    seconds = group.behind_s or 0.0
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
