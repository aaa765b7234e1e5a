from itertools import pairwise
from random import Random

import pytest

from tests.bench.benefit.faults import BEGINS_S, ENDS_S, LENGTH_S
from tests.bench.benefit.reaction import Reaction
from tests.bench.benefit.simulate import EVERY_S, Cell, exposed, simulate, tasks_of
from tests.unit.bench.benefit.world import TARGET, small_world

pytestmark = pytest.mark.deep

WITHOUT_PEERS = [
    "nothing",
    "framework retries",
    "retries + fallback",
    "Powertools-like",
    "Switchgear",
    "Switchgear + fallback",
    "Switchgear + stable list",
    "Switchgear + new_sessions",
    "Switchgear + hide",
    "Switchgear + hide after 2 min",
    "Switchgear + pacing",
    "Switchgear + retries + fallback",
]
"""The arms that need no library of a peer."""
DOWN = "explicit, permanent"


@pytest.mark.parametrize("arm", WITHOUT_PEERS)
def test_a_run_of_a_seed_is_always_the_same(arm):
    cell = Cell(arm, "explicit, transient", 5, 1)
    assert simulate(cell, small_world()) == simulate(cell, small_world())


@pytest.mark.parametrize("arm", WITHOUT_PEERS)
def test_nearly_all_tasks_are_done_on_a_day_without_an_outage_and_nothing_is_refused(arm):
    found = simulate(Cell(arm, "none", 5, 1), small_world())
    assert found.done >= 0.95 * found.tasks
    assert (found.broken_calls, found.refused) == (0, 0)


def test_every_arm_gets_the_same_tasks_at_the_same_times():
    found = {
        (each.tasks, each.exposed) for each in (simulate(Cell(arm, DOWN, 5, 1), small_world()) for arm in WITHOUT_PEERS)
    }
    assert len(found) == 1
    assert min(next(iter(found))) > 0


def test_a_breaker_of_the_fleet_spares_the_broken_tool_most_of_the_calls():
    nothing, ours = (simulate(Cell(arm, DOWN, 20, 1), small_world()) for arm in ("nothing", "Switchgear"))
    assert ours.broken_calls < nothing.broken_calls / 4
    assert ours.refused > 0


def test_a_fallback_does_the_tasks_that_a_broken_tool_leaves():
    alone, fallback = (
        simulate(Cell(arm, DOWN, 20, 1), small_world()) for arm in ("Switchgear", "Switchgear + fallback")
    )
    assert alone.exposed_done < 0.3 * alone.exposed
    assert fallback.exposed_done > 0.8 * fallback.exposed


def _told(arm, fault=DOWN, agents=20):
    return simulate(Cell(arm, fault, agents, 1), small_world())


@pytest.mark.parametrize("arm", ["Switchgear + stable list", "Switchgear + new_sessions"])
def test_a_list_that_stays_the_same_within_a_task_is_never_written_into_the_cache_again(arm):
    assert _told(arm).spent.rewritten == 0


def test_a_message_about_an_outage_costs_tokens_and_changes_no_call():
    plain, stable = _told("Switchgear"), _told("Switchgear + stable list")
    assert (stable.broken_calls, stable.refused, stable.done) == (plain.broken_calls, plain.refused, plain.done)
    assert plain.spent.billed < stable.spent.billed < 1.1 * plain.spent.billed


def test_a_task_that_begins_in_an_outage_is_not_offered_the_tool_and_takes_fewer_turns():
    stable, filtered = _told("Switchgear + stable list"), _told("Switchgear + new_sessions")
    assert filtered.exposed_turns < stable.exposed_turns
    assert filtered.broken_calls <= stable.broken_calls


def test_a_tool_that_is_down_for_less_than_ten_minutes_is_not_hidden_by_default():
    assert _told("Switchgear + hide") == _told("Switchgear + stable list")


def test_a_tool_that_is_hidden_after_two_minutes_changes_the_lists_of_tasks_under_way():
    assert _told("Switchgear + hide after 2 min").spent.rewritten > 0


def test_pacing_spares_a_tool_with_a_quota_more_refusals_of_its_own_than_a_breaker_does():
    plain, paced = _told("Switchgear", "quota"), _told("Switchgear + pacing", "quota")
    assert paced.broken_calls < plain.broken_calls / 2
    assert paced.refused > 0


def test_pacing_refuses_no_more_calls_of_a_tool_that_is_down():
    plain, paced = _told("Switchgear"), _told("Switchgear + pacing")
    assert (paced.broken_calls, paced.refused, paced.done) == (plain.broken_calls, plain.refused, plain.done)


def test_a_wrong_answer_that_nothing_shows_looks_the_same_to_every_arm():
    runs = [simulate(Cell(arm, "implicit, permanent", 5, 1), small_world()) for arm in ("nothing", "Switchgear")]
    assert runs[0] == runs[1]
    assert runs[0].exposed_done < runs[0].exposed


def test_an_agent_that_waits_as_told_does_more_tasks_and_takes_longer():
    patient, hasty = (
        simulate(Cell("Switchgear", DOWN, 20, 1, Reaction(waits=waits)), small_world()) for waits in (1.0, 0.0)
    )
    assert patient.exposed_done > hasty.exposed_done
    assert patient.exposed_seconds > hasty.exposed_seconds


def test_the_tasks_of_agents_are_different_ones_and_come_once_in_a_minute():
    order = list(small_world().tasks)
    found = list(tasks_of(1, 2, order, Random(1)))
    assert [task.task_id for task, _ in found[:4]] == ["1", "3", "5", "0"]
    times = [at for _, at in found]
    assert 0.0 <= times[0] < EVERY_S
    assert times[-1] < LENGTH_S
    assert {round(later - earlier, 6) for earlier, later in pairwise(times)} == {EVERY_S}


def test_a_task_is_exposed_if_it_needs_the_tool_and_comes_while_that_is_broken():
    task = small_world().tasks[0]
    assert exposed(task, BEGINS_S, TARGET)
    assert not exposed(task, ENDS_S, TARGET)
    assert not exposed(task, BEGINS_S, "mcp:other:tool")
