"""An outage of an hour, by the list of tools that models see: how often it changes, and what that costs."""

from __future__ import annotations

import functools

import pytest

from tests.bench import tool_list

pytestmark = pytest.mark.deep
run = functools.cache(tool_list.run)


def test_a_stable_list_never_changes_and_no_prompt_is_written_again():
    cost = run("stable")
    assert (cost.changes, cost.counted, cost.spent.rewritten, cost.back_s) == ([0] * 5, [0] * 5, 0, 0)


def test_a_list_of_new_sessions_never_changes_within_one():
    cost = run("new_sessions")
    assert (cost.changes, cost.counted, cost.spent.rewritten) == ([0] * 5, [0] * 5, 0)
    assert cost.refused < run("stable").refused


def test_a_hiding_list_changes_at_most_twice_in_each_process():
    cost = run("hide")
    assert cost.changes == cost.counted
    assert max(cost.changes) <= 2
    assert cost.back_s is not None
    assert 600 <= cost.back_s <= 720, "ten minutes after it was up again"
    assert cost.refused < run("stable").refused


def test_each_change_of_a_list_is_paid_for_and_the_stable_list_is_the_cheapest():
    every, hide, new, stable = (run(mode).spent for mode in ("every probe", "hide", "new_sessions", "stable"))
    assert stable.rewritten == new.rewritten == 0 < hide.rewritten < every.rewritten / 2
    assert stable.billed < new.billed < hide.billed < every.billed


def test_a_tool_that_only_models_call_returns_to_every_list():
    """Nobody is offered it, so nobody calls it: a process asks for a probe, and offers it again until its model has made that."""
    cost = run("hide", others=False, seconds=6_600)
    assert cost.back_s is not None
    assert cost.back_s <= 2_000
    assert sorted(cost.changes)[:2] == [2, 2], "one process at a time"
    assert cost.changes == cost.counted
