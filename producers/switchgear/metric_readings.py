"""What a client's condition is as numbers: the families there are, and their values as of now. For ``switchgear.prometheus``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from switchgear.call_counts import CallCounts
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus

if TYPE_CHECKING:
    from switchgear.client import Switchgear

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
