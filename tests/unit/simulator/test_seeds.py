"""Seeds that once broke an invariant."""

import json
from pathlib import Path

import pytest

from tests.simulator.simulation import Simulation
from tests.unit.simulator.small import small

pytestmark = pytest.mark.deep

SEEDS = json.loads(Path(__file__).with_name("seeds.json").read_text())


@pytest.mark.parametrize("found", SEEDS, ids=lambda found: f"{found['seed']}: {found['what']}")
def test_every_invariant_holds_for_a_seed_that_once_broke_one(found):
    simulation = Simulation(small(found["seed"], **found.get("settings", {}))).run()
    assert all(": held (" in line for line in simulation.audit.lines())
