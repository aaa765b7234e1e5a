"""A simulated fleet keeps the rate limits of its tools, also while its parts fail. A share that is too large breaks the invariant."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear.guard import turns
from tests.simulator.invariants.broken import InvariantBrokenError
from tests.simulator.paced import PacedScenario
from tests.simulator.simulation import Simulation
from tests.support.deep import some

pytestmark = pytest.mark.slow

QUIET: dict[str, Any] = dict.fromkeys(
    (
        "worker_crash_every_s",
        "zombie_every_s",
        "worker_outage_every_s",
        "process_crash_every_s",
        "stale_every_s",
        "cut_every_s",
    ),
    0.0,
)


def run(seed: int, **changes: Any) -> Simulation:
    return Simulation(PacedScenario(seed=seed, hours=0.04, tools=3, calls_per_s=120.0, **changes)).run()


@pytest.mark.deep
def test_the_limits_are_kept_and_used():
    simulation = run(1, **QUIET)
    assert simulation.audit.pace.checked > 500
    busiest = simulation.tools[0].quota
    assert busiest is not None
    assert busiest.taken >= 0.6 * busiest.rate * simulation.scenario.length_s


@pytest.mark.deep
@pytest.mark.parametrize("seed", [2, 3])
def test_the_limits_are_kept_while_parts_fail(seed):
    assert run(seed).audit.pace.checked > 300


@pytest.mark.deep
def test_two_runs_of_one_seed_agree():
    assert run(4).digest() == run(4).digest()


@pytest.mark.parametrize("wrong", some([lambda granted, *_: granted, lambda granted, *_: granted / 5], 1))
def test_shares_that_add_up_to_more_are_found(monkeypatch, wrong):
    monkeypatch.setattr(turns, "share_of", wrong)
    monkeypatch.setattr("switchgear.pacing.limit.LEAST_GRANTED", 1.0)
    with pytest.raises(InvariantBrokenError, match="kept-pace"):
        run(1, **QUIET)
