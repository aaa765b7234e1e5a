"""SwitchgearStatus.degraded names what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from switchgear import EmitterStatus, FollowerStatus, Switchgear, SwitchgearStatus
from switchgear.emitter.status import SpoolStatus
from tests.support.table import table

SPOOL = SpoolStatus(in_use=False, records=0, bytes=0, limit_bytes=10, taken_over=0, dropped=0, damaged=0, error=None)
EMITTER = EmitterStatus(
    emitted=5, acknowledged=5, dropped=0, failed=0, buffered=0, connected=True, alive=True, last_error=None, spool=SPOOL
)
FOLLOWER = FollowerStatus(
    loaded=True, connected=True, circuits=3, lag=0, age_s=0.2, malformed=0, last_error=None, stale=False
)
WELL = SwitchgearStatus(emitter=EMITTER, follower=FOLLOWER, local={}, background_deaths={}, mode="fleet")


def emitter(**changes: Any) -> Callable[[], SwitchgearStatus]:
    return lambda: replace(WELL, emitter=replace(EMITTER, **changes))


def test_degraded_is_empty_if_nothing_is_wrong() -> None:
    assert WELL.degraded == ()


def test_degraded_is_empty_without_kafka() -> None:
    status = Switchgear.local().status()
    assert (status.mode, status.degraded) == ("local_only", ())


@table(
    ("status", "words"),
    [
        (
            lambda: replace(WELL, mode="last_known", follower=replace(FOLLOWER, age_s=40.0)),
            "The fleet's circuits were last confirmed 40 s ago; mode last_known.",
        ),
        (
            lambda: replace(WELL, mode="loading", follower=replace(FOLLOWER, age_s=None)),
            "The fleet's circuits were never loaded; mode loading.",
        ),
        (lambda: replace(WELL, follower=replace(FOLLOWER, lag=12)), "The follower is 12 records behind."),
        (
            lambda: replace(WELL, owner_silent_s={"a": 3.0, "b": 31.4}),
            "Requests for a probe of 2 circuits got no answer for up to 31 s.",
        ),
        (emitter(away_s=12.3), "Kafka has not taken an event for 12 s."),
        (emitter(dropped=7), "7 events were dropped."),
        (emitter(spool=replace(SPOOL, in_use=True, records=9)), "9 events are in the spool."),
        (
            emitter(spool=replace(SPOOL, error="OSError: no space")),
            "The spool can't be used: OSError: no space.",
        ),
        (
            lambda: replace(WELL, background_deaths={"follower": "ValueError: x"}),
            "The background job follower was restarted after an error: ValueError: x.",
        ),
    ],
)
def test_degraded_has_a_sentence_for_each_problem(status: Callable[[], SwitchgearStatus], words: str) -> None:
    assert status().degraded == (words,)


def test_degraded_reports_a_client_that_never_reached_kafka() -> None:
    gear = Switchgear("127.0.0.1:1")
    status = gear.status()
    assert status.mode == "loading"
    assert status.degraded == ("The fleet's circuits were never loaded; mode loading.",)
    assert status.follower is not None
    assert status.follower.stale
