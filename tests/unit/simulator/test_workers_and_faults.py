"""The faults of the simulator happen, and end."""

import pytest

from tests.simulator.simulation import Simulation
from tests.simulator.workers import PATIENCE_S
from tests.unit.simulator.small import small

pytestmark = pytest.mark.deep

QUIET = {
    "outage_every_s": 0.0,
    "server_outage_every_s": 0.0,
    "worker_crash_every_s": 0.0,
    "zombie_every_s": 0.0,
    "worker_outage_every_s": 0.0,
    "process_crash_every_s": 0.0,
    "stale_every_s": 0.0,
    "cut_every_s": 0.0,
    "command_every_s": 0.0,
}


def quiet(**changes):
    return Simulation(small(1, **(QUIET | {"hours": 0.05} | changes)))


def test_a_fleet_without_faults_opens_no_circuit():
    simulation = quiet().run()
    assert simulation.calls.permitted > 500
    assert simulation.calls.refused == 0
    assert simulation.audit.records.seen == 0
    assert not any(simulation.faults.counts.values())
    assert simulation.network.lost == 0


def test_partitions_of_a_dead_worker_have_no_owner_until_the_take_over():
    simulation = quiet()
    simulation.agenda.run(10)
    simulation.workers.crash()
    simulation.agenda.run(11 + PATIENCE_S)
    away = dict(simulation.workers.away_since)
    assert len(away) == 6
    assert simulation.workers.away_within(next(iter(away)), 0.0)
    simulation.agenda.run(12 + PATIENCE_S + simulation.scenario.failover_s[1])
    assert simulation.workers.away_since == {}
    assert all(simulation.workers.away_within(partition, away[partition]) for partition in away)
    simulation.run()


def test_the_last_worker_does_not_crash_after_the_others():
    simulation = quiet()
    simulation.agenda.run(5)
    for _ in range(5):
        simulation.workers.crash()
    simulation.agenda.run(6 + PATIENCE_S)
    assert sum(simulation.workers._up) >= 1
    simulation.run()


def test_a_paused_worker_writes_its_batch_after_it_was_replaced():
    simulation = quiet(outage_every_s=60.0, calls_per_s=10.0, zombie_every_s=15.0, hours=0.15).run()
    assert simulation.workers.zombies > 3
    records = simulation.audit.records
    assert records.stale > 0
    assert records.repeated > 0


def test_without_workers_nothing_is_published_and_later_workers_catch_up():
    simulation = quiet(outage_every_s=60.0, calls_per_s=20.0)
    simulation.agenda.run(20)
    simulation.workers.outage()
    seen = simulation.audit.records.seen
    simulation.agenda.run(24)
    assert simulation.audit.records.seen == seen
    assert len(simulation.workers.away_since) == simulation.scenario.partitions
    simulation.run()
    assert simulation.audit.rebuild.compared > 0


def test_a_dead_process_loses_its_events_and_another_takes_its_place():
    simulation = quiet(calls_per_s=50.0)
    simulation.agenda.run(10)
    process = simulation.processes[3]
    simulation.faults.crash(process)
    simulation.faults.crash(process)
    assert not process.alive
    simulation.agenda.run(45)
    successor = simulation.processes[3]
    assert (successor.alive, successor.life, successor.name) == (True, 1, "sim3.1")
    assert simulation.network.lost >= 0
    simulation.run()


def test_a_process_without_records_receives_all_of_them_afterwards():
    simulation = quiet(outage_every_s=60.0, calls_per_s=20.0)
    process = simulation.processes[0]
    process.deaf_since = 0.0
    process.follower.cut()
    simulation.agenda.run(150)
    assert process.follower.table.views == {}
    simulation.faults.hear(process)
    assert len(process.follower.table.views) == len(simulation.audit.records.newest) > 0
    assert process.disturbed_since(149.0)
    simulation.run()


def test_a_process_that_could_not_send_sends_its_buffer_afterwards():
    simulation = quiet(calls_per_s=50.0)
    process = simulation.processes[0]
    process.mute_since = 0.0
    process.emitter.cut()
    simulation.agenda.run(30)
    assert process.emitter.status().buffered > 10
    simulation.faults.speak(process)
    assert process.emitter.status().buffered == 0
    simulation.run()


@pytest.mark.parametrize("process", range(3))
def test_messages_of_one_process_arrive_in_their_order(process):
    simulation = quiet(calls_per_s=100.0, hours=0.02)
    arrived = []
    receive = simulation.receive
    simulation.receive = lambda tool, value: (arrived.append(value), receive(tool, value))
    sent = []
    for one in simulation.processes:
        transmit = one.emitter._send
        one.emitter._send = lambda tool, value, urgent, to=transmit, by=one.number: (
            sent.append((by, value)),
            to(tool, value, urgent),
        )
    simulation.run()
    mine = [value for by, value in sent if by == process]
    assert len(mine) > 100
    wanted = set(mine)
    assert [value for value in arrived if value in wanted] == mine


def test_the_log_before_a_checkpoint_is_dropped():
    simulation = quiet(hours=0.25).run()
    names, log = simulation.names, simulation.log
    left = sum(len(log.read(names.executions, number, 0)) for number in range(12))
    total = sum(log.end(names.executions, number) for number in range(12))
    assert total > 3_000
    assert left == 0
