import pytest

from tests.bench.benefit.side_by_side import outcomes
from tests.bench.benefit.simulate import Cell, simulate
from tests.unit.bench.benefit.world import small_world

pytestmark = pytest.mark.slow


def small_worlds():
    return [small_world()]


def test_cells_that_are_simulated_side_by_side_have_the_outcomes_and_the_order_of_cells_one_by_one():
    cells = [Cell("Switchgear", "explicit, permanent", agents, seed) for agents in (1, 3) for seed in range(2)]
    found = list(outcomes(cells, small_worlds, cores=2))
    assert found == [(cell, small_world().name, simulate(cell, small_world())) for cell in cells]
