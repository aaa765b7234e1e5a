"""A component that died is started again, later each time, until it has run well for a while."""

import pytest

from switchgear_cli.up.supervisor import (
    STABLE_AFTER_S,
    Phase,
    Supervision,
    became_ready,
    died,
    due,
    spawned,
    stopped,
)


def running(at=0.0):
    return became_ready(spawned(Supervision(), at), at)


def test_a_first_start_does_not_count_as_a_restart():
    supervision = spawned(Supervision(), 1.0)
    assert (supervision.phase, supervision.restarts, supervision.since) == (Phase.STARTING, 0, 1.0)


def test_a_started_component_runs_when_it_is_ready():
    supervision = running(2.0)
    assert (supervision.phase, supervision.ever_ready) == (Phase.RUNNING, True)


def test_readiness_of_a_component_that_is_not_starting_changes_nothing():
    dead = died(running(), 1.0, "code 1")
    assert became_ready(dead, 2.0) == dead


def test_a_dead_component_is_due_after_the_first_backoff():
    supervision = died(running(), 10.0, "SIGKILL")
    assert (supervision.phase, supervision.problem) == (Phase.WAITING, "SIGKILL")
    assert not due(supervision, 10.49)
    assert due(supervision, 10.5)


def test_a_restart_is_counted():
    supervision = spawned(died(running(), 10.0, "SIGKILL"), 10.5)
    assert (supervision.phase, supervision.restarts, supervision.restart_at) == (Phase.STARTING, 1, None)


def test_a_running_component_is_never_due():
    assert not due(running(), 1e9)


def test_deaths_in_a_row_wait_longer_each_time_up_to_a_cap():
    supervision, now, waits = spawned(Supervision(), 0.0), 0.0, []
    for _ in range(8):
        supervision = died(supervision, now, "code 1")
        waits.append(supervision.restart_at - now)
        now = supervision.restart_at
        supervision = spawned(supervision, now)
    assert waits == [0.5, 1, 2, 4, 8, 15, 15, 15]
    assert supervision.restarts == 8


def test_a_stable_run_starts_the_backoff_over():
    supervision = died(spawned(Supervision(), 0.0), 0.0, "code 1")
    supervision = died(spawned(supervision, 0.5), 0.6, "code 1")
    assert supervision.streak == 2
    supervision = became_ready(spawned(supervision, 2.0), 2.0)
    assert died(supervision, 2.0 + STABLE_AFTER_S, "code 1").streak == 1
    assert died(supervision, 1.9 + STABLE_AFTER_S, "code 1").streak == 3


def test_a_component_ended_on_purpose_is_not_due():
    supervision = stopped(died(running(), 1.0, "code 1"), 2.0)
    assert supervision.phase is Phase.STOPPED
    assert not due(supervision, 1e9)


@pytest.mark.parametrize("streak", [1, 30, 10_000])
def test_the_backoff_is_always_between_its_bounds(streak):
    assert 0.5 <= died(Supervision(streak=streak - 1), 0.0, "code 1").restart_at <= 15.0


def test_a_component_is_away_from_its_first_death_until_it_is_ready_again():
    supervision = died(running(), 10.0, "SIGKILL")
    supervision = died(spawned(supervision, 10.5), 11.0, "code 1")
    assert supervision.down_since == 10.0
    assert became_ready(spawned(supervision, 12.0), 13.0).down_since is None
    assert stopped(supervision, 12.0).down_since is None
