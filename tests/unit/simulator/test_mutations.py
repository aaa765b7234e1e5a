"""Each invariant notices the fault that it is there for. A simulator that never fails proves nothing."""

from random import Random

import pytest

from switchgear.breaker import Breaker, ResultKind, family_result_kind
from switchgear.breaker.evidence import Evidence
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.ramp import Ramp
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.fold import FleetFold
from switchgear.fleet.registry import CircuitRegistry
from switchgear.fleet.run import Run
from switchgear.follower.status import BrokerTime
from switchgear.follower.table import CircuitTable
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.families import FamilyPermit
from switchgear.guard.fleet_circuits import FleetCircuits, fleet_answer
from switchgear.testing.worker import MemoryWorker
from switchgear_schemas.cause import Cause
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.policy import FLEET_DEFAULT, Cusum
from tests.simulator.__main__ import agreement
from tests.simulator.healthy import check, steady
from tests.simulator.invariants.broken import InvariantBrokenError
from tests.simulator.network import Network
from tests.simulator.simulation import Simulation
from tests.unit.simulator.small import small

pytestmark = pytest.mark.deep

SEEDS = range(1, 5)


def broken(**changes):
    """Return the first invariant that a few seeds break. Fail if none breaks one."""
    for seed in SEEDS:
        try:
            Simulation(small(seed, **({"hours": 0.2} | changes))).run()
        except InvariantBrokenError as error:
            assert f"--seed {seed}" in error.hint
            return error
    raise AssertionError("no invariant noticed it")


def test_a_guard_that_takes_the_lease_of_another_process_is_noticed(monkeypatch):
    def anybodys(view, now, emitter_id):
        return view.leases[0] if view.leases and not view.passes else fleet_answer(view, now, emitter_id)

    monkeypatch.setattr("switchgear.guard.fleet_circuits.fleet_answer", anybodys)
    assert broken().invariant in {"at-most-n-probes", "no-call-while-open"}


def test_an_owner_that_grants_one_lease_too_many_is_noticed(monkeypatch):
    room = HalfOpen.room
    monkeypatch.setattr(HalfOpen, "room", lambda self, policy: room(self, policy) + 1)
    error = broken(calls_per_s=15.0, tools=4, hours=0.2)
    assert error.invariant in {"at-most-n-probes", "server-recovers-at-once"}
    assert "permitted" in str(error)
    assert "lease" in str(error)  # the circuit's history


def test_an_owner_that_grants_one_probe_of_a_server_too_many_is_noticed(monkeypatch):
    room = HalfOpen.room
    monkeypatch.setattr(HalfOpen, "room", lambda self, policy: room(self, policy) + (policy.minimum_tools > 1))
    error = broken(calls_per_s=15.0, server_outage_every_s=200.0)
    assert error.invariant in {"at-most-n-probes", "server-recovers-at-once"}
    assert error.circuit_id.endswith("|family")


def test_a_guard_that_calls_tools_of_a_dead_server_is_noticed(monkeypatch):
    def passes(_self, attempt):
        attempt.of_family = FamilyPermit(attempt.family.name, None, None, None)

    monkeypatch.setattr(CircuitDecision, "_fleet_of_family", lambda *_: None)
    monkeypatch.setattr(CircuitDecision, "_own_family", passes)
    error = broken(calls_per_s=15.0, server_outage_every_s=200.0)
    assert (error.invariant, error.circuit_id[-7:]) == ("no-call-while-open", "|family")


def test_a_broken_tool_that_takes_its_server_down_is_noticed(monkeypatch):
    breach = Evidence.breach

    def careless(self, policy, now):
        return breach(self, policy.model_copy(update={"minimum_tools": 1}), now)

    monkeypatch.setattr(Evidence, "breach", careless)
    error = broken(server_outage_every_s=0.0, outage_every_s=100.0, calls_per_s=15.0)
    assert (error.invariant, error.circuit_id[-7:]) == ("opens-with-evidence", "|family")


def test_a_server_that_recovers_without_its_tools_is_noticed(monkeypatch):
    monkeypatch.setattr(CircuitRegistry, "open_of_family", lambda *_: [])
    error = broken(calls_per_s=15.0, server_outage_every_s=200.0)
    assert error.invariant == "server-recovers-at-once"
    assert "its server answers since version" in str(error)


def test_an_owner_that_counts_an_answer_as_a_failure_of_the_server_is_noticed(monkeypatch):
    def strict(status, error_class, policy):
        return ResultKind.FAILURE if error_class == "server" else family_result_kind(status, error_class, policy)

    monkeypatch.setattr("switchgear.fleet.fold.family_result_kind", strict)
    assert broken(server_outage_every_s=0.0).invariant in {"counted-once", "opens-with-evidence"}


@pytest.mark.parametrize("of_family", [False, True])
def test_an_owner_that_forgets_a_call_of_a_run_is_noticed(monkeypatch, of_family):
    add = Run.add

    def forgetful(self, *args):
        first = add(self, *args)
        self.count -= self.count > 2 and bool(self.durations) != of_family
        return first

    monkeypatch.setattr(Run, "add", forgetful)
    error = broken(calls_per_s=15.0, server_outage_every_s=0.0)
    assert error.invariant in {"counted-once", "rebuild-agrees"}
    assert error.circuit_id.startswith("mcp:server_") if of_family else not error.circuit_id.endswith("|family")


def test_a_record_in_the_partition_of_another_owner_is_noticed(monkeypatch):
    monkeypatch.setattr(
        "switchgear.testing.worker.partition_of", lambda tool, count, _pattern: owner_partition(tool, count)
    )
    error = broken()
    assert error.invariant == "versions-rise"
    assert "owns it" in str(error)


def test_a_lease_used_twice_is_noticed(monkeypatch):
    monkeypatch.setattr(FleetCircuits, "take_lease", lambda *_: True)
    error = broken(calls_per_s=15.0, tools=4, processes=3, hours=0.2)
    assert error.invariant == "at-most-n-probes"
    assert "a second time" in str(error)


def test_a_guard_that_calls_an_open_tool_is_noticed(monkeypatch):
    monkeypatch.setattr("switchgear.guard.fleet_circuits.fleet_answer", lambda *_: "pass")
    monkeypatch.setattr("switchgear.guard.fleet_circuits.FleetCircuits.reachable", lambda *_: False)
    monkeypatch.setattr("switchgear.guard.fleet_circuits.FleetCircuits.decide", lambda *_: "pass")
    error = broken()
    assert error.invariant == "no-call-while-open"
    assert "without a lease" in str(error)


def test_a_guard_that_trusts_a_clock_which_is_far_ahead_is_noticed(monkeypatch):
    monkeypatch.setattr(BrokerTime, "heard", lambda *_: None)
    error = broken(skew_s=60.0, command_every_s=0.0)
    assert error.invariant == "no-call-while-open"
    assert "decides alone, though the circuit had its owner all the time" in str(error)


def test_a_version_that_does_not_rise_is_noticed(monkeypatch):
    next_record = LiveCircuit.next_record

    def stuck(self, *args, **options):
        self.row.version = max(0, self.row.version - 1)
        return next_record(self, *args, **options)

    monkeypatch.setattr(LiveCircuit, "next_record", stuck)
    assert broken().invariant == "versions-rise"


def test_a_generation_that_does_not_rise_is_noticed(monkeypatch):
    move = Breaker._move

    def stuck(self, *args, **options):
        self.generation -= 1
        return move(self, *args, **options)

    monkeypatch.setattr(Breaker, "_move", stuck)
    error = broken()
    assert error.invariant == "versions-rise"
    assert "generation 0" in str(error)


def test_a_record_that_is_never_published_is_noticed(monkeypatch):
    write = MemoryWorker.write

    def forgetful(self, changes, *, outputs=True):
        changes.circuits = [published for published in changes.circuits if published.version % 3]
        write(self, changes, outputs=outputs)

    monkeypatch.setattr(MemoryWorker, "write", forgetful)
    error = broken(worker_crash_every_s=0.0, worker_outage_every_s=0.0, zombie_every_s=0.0)
    assert error.invariant in {"versions-rise", "at-most-n-probes", "recovered-closes", "no-call-while-open"}


def test_a_take_over_that_publishes_nothing_is_noticed(monkeypatch):
    monkeypatch.setattr("switchgear.fleet.fold.reconcile", lambda *_: {})
    error = broken(worker_crash_every_s=30.0, worker_outage_every_s=0.0, zombie_every_s=0.0)
    assert error.invariant in {"versions-rise", "opens-with-evidence", "no-call-while-open", "recovered-closes"}


def test_an_open_without_evidence_is_noticed(monkeypatch):
    add = Evidence.add
    monkeypatch.setattr(Evidence, "add", lambda self, now, result: add(self, now, result) or bool(self.window.failed))
    monkeypatch.setattr(Evidence, "breach", lambda *_: Cause("cusum", 12.0, 12.0, 1, 2))
    error = broken()
    assert error.invariant == "opens-with-evidence"
    assert "the log has no such evidence" in str(error)


def test_a_circuit_that_closes_on_a_bad_probe_is_noticed(monkeypatch):
    verdict = HalfOpen.verdict

    def kind(self, policy):
        if self.bad:
            self.bad, self.failed, self.good = 0, 0, policy.success_threshold_to_close
        return verdict(self, policy)

    monkeypatch.setattr(HalfOpen, "verdict", kind)
    assert broken().invariant == "opens-with-evidence"


def test_a_circuit_that_never_closes_is_noticed(monkeypatch):
    monkeypatch.setattr(HalfOpen, "verdict", lambda *_: None)
    error = broken(command_every_s=0.0, server_outage_every_s=0.0)
    assert error.invariant == "recovered-closes"


def test_a_replay_that_counts_again_is_noticed(monkeypatch):
    def forgetful(self, live, fence):
        partition, offset = fence
        live.row.fences[partition] = max(offset, live.row.fences.get(partition, -1))
        live.row.applied += 1
        self.registry.touch(live)
        return True

    monkeypatch.setattr(FleetFold, "_raise_fence", forgetful)
    assert broken().invariant in {"rebuild-agrees", "counted-once", "opens-with-evidence"}


def test_a_follower_that_misses_a_record_is_noticed(monkeypatch):
    apply = CircuitTable.apply
    monkeypatch.setattr(
        CircuitTable, "apply", lambda self, key, value: None if b'"version":2,' in value else apply(self, key, value)
    )
    assert broken().invariant in {"views-converge", "recovered-closes", "no-call-while-open"}


def test_an_owner_that_lets_all_calls_through_after_a_close_is_noticed(monkeypatch):
    monkeypatch.setattr(Ramp, "begin", lambda *_, **__: None)
    error = broken(command_every_s=0.0)
    assert error.invariant == "monotonic-ramp"
    assert "no more than 0.1 are due" in str(error)


def test_an_owner_that_forgets_that_the_tool_asked_to_wait_is_noticed(monkeypatch):
    begin = Ramp.begin
    monkeypatch.setattr(Ramp, "begin", lambda policy, now, **_: begin(policy, now))
    error = broken()
    assert error.invariant == "monotonic-ramp"
    assert "no more than 0.1 are due" in str(error)


def test_an_owner_that_slows_a_recovery_although_the_tool_did_not_ask_to_wait_is_noticed(monkeypatch):
    begin = Ramp.begin
    monkeypatch.setattr(Ramp, "begin", lambda policy, now, **_: begin(policy, now, rate_limited=True))
    error = broken()
    assert error.invariant == "monotonic-ramp"
    assert "it is closed and admits 0.1 of the calls" in str(error)


def test_an_owner_whose_steps_are_too_short_is_noticed(monkeypatch):
    climb = Ramp.climb
    monkeypatch.setattr(Ramp, "climb", lambda self, policy, now: climb(self, policy, now + 5))
    assert broken(calls_per_s=15.0, tools=4).invariant == "monotonic-ramp"


def test_a_share_that_falls_is_noticed(monkeypatch):
    climb = Ramp.climb

    def falls(self, policy, now):
        found = climb(self, policy, now)
        if found == 0.5:
            found = self.share = 0.1
        return found

    monkeypatch.setattr(Ramp, "climb", falls)
    error = broken(calls_per_s=15.0, tools=4)
    assert error.invariant == "monotonic-ramp"
    assert "it admits 0.1 of the calls, after 0.25" in str(error)


def test_a_guard_that_ignores_the_share_is_noticed(monkeypatch):
    monkeypatch.setattr(FleetCircuits, "admits", lambda *_: True)
    error = broken(calls_per_s=15.0, tools=4, processes=3)
    assert error.invariant == "monotonic-ramp"
    assert "admitted" in str(error)


def test_two_runs_that_differ_are_noticed(monkeypatch):
    scenario = small(hours=0.05)
    digest = Simulation(scenario).run().digest()
    assert "held" in agreement(digest, scenario)
    unseeded = Random()
    monkeypatch.setattr(Network, "latency_s", lambda _: 0.02 * unseeded.random())
    with pytest.raises(InvariantBrokenError, match="two-runs-agree: BROKEN"):
        agreement(digest, scenario)


def test_a_detector_that_opens_too_often_or_too_rarely_is_noticed():
    eager = FLEET_DEFAULT.model_copy(update={"cusum": Cusum(calls_between_false_opens=10_000)})
    dull = FLEET_DEFAULT.model_copy(update={"cusum": None})
    for policy in (eager, dull):
        found = steady(0.15, 600_000, Random(1), policy)
        with pytest.raises(InvariantBrokenError, match="healthy-stays-closed: BROKEN"):
            check([found], "again")
