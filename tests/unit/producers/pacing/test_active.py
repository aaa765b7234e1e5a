"""How many processes call a tool is counted in one kilobyte."""

from __future__ import annotations

import pytest

from switchgear.pacing.active import PANE_S, ActiveProcesses


@pytest.mark.parametrize(("processes", "tolerance"), [(1, 0), (5, 0), (20, 1), (100, 5), (1_000, 30), (5_000, 250)])
def test_processes_are_counted_to_a_few_percent(processes, tolerance):
    active = ActiveProcesses(0.0)
    for each in range(processes):
        for _ in range(2):
            active.add(1.0, f"host-{each}")
    assert abs(active.count(2.0) - processes) <= tolerance


def test_a_process_that_no_longer_calls_is_forgotten_after_two_panes():
    active = ActiveProcesses(0.0)
    active.add(PANE_S - 1, "a")
    active.add(PANE_S - 1, "b")
    active.add(PANE_S + 1, "a")
    assert active.count(PANE_S + 2) == 2
    active.add(2 * PANE_S + 1, "a")
    assert active.count(2 * PANE_S + 2) == 1


def test_without_a_process_there_is_the_one_that_asks():
    active = ActiveProcesses(0.0)
    active.add(1.0, "a")
    assert active.count(1_000.0) == 1


def test_a_clock_that_goes_back_starts_over():
    active = ActiveProcesses(0.0)
    active.add(1_000.0, "a")
    active.add(1.0, "b")
    assert active.count(2.0) == 1
