"""The default run: a thousand processes, two hundred tools, outages and every kind of fault."""

import pytest

from tests.simulator.scenario import Scenario
from tests.simulator.simulation import Simulation

pytestmark = pytest.mark.deep


def test_every_invariant_holds_with_a_thousand_processes_and_two_hundred_tools():
    simulation = Simulation(Scenario(seed=20, hours=0.12, outage_every_s=500.0, outage_s=60.0, calls_per_s=60.0)).run()
    audit, calls = simulation.audit, simulation.calls
    assert len(simulation.processes) == 1_000
    assert len(simulation.tools) == 200
    lines = audit.lines()
    assert all(": held (" in line for line in lines), lines
    # A run in which nothing happened would hold, too.
    assert calls.permitted > 20_000
    assert calls.refused > 500
    assert calls.foreign > 300
    assert audit.probes.flown > 40
    assert max(audit.probes.most) == 3
    assert audit.probes.most[1] == 1
    assert len(audit.recovery.times) > 15
    assert audit.records.seen > 200
    assert audit.rebuild.compared >= 200
    assert audit.evidence.opens["cusum"] > 30
    assert simulation.workers.crashes
    assert simulation.faults.counts["process crashes"] > 5
    assert simulation.faults.counts["deaf followers"] > 15


def test_two_runs_of_a_seed_write_the_same_log_to_the_byte_and_another_seed_does_not():
    digests = [
        Simulation(Scenario(seed=seed, processes=30, tools=15, hours=0.05, calls_per_s=10.0)).run().digest()
        for seed in (5, 5, 6)
    ]
    assert digests[0] == digests[1] != digests[2]
