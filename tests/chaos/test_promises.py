"""The verifier, fed with doctored data: each fault that it is there to find, it finds."""

import pytest

from tests.chaos.doctored import HOME, PARTITIONS, TOOL, a_record, an_event, broken, check_a_wrong_total, only, store
from tests.chaos.evidence import Evidence, Row
from tests.chaos.ledger import Ledger, Offered
from tests.chaos.promises.all_promises import PROMISES
from tests.chaos.promises.result import PromiseResult, check_promises
from tests.chaos.run import Report

pytestmark = pytest.mark.deep


@pytest.fixture
def evidence():
    """A run in which all was well: eight calls, an open, one probe, a recovery; and one piece of junk in the dead letters."""
    events = [an_event(offset, status="success" if offset < 5 else "error", error_class=None) for offset in range(8)]
    events.append(an_event(8, status="rejected", generation=1))
    events.append(an_event(9, generation=2, lease_id="2.1", timestamp_s=1011.0))
    events.append(an_event(10, key="junk-1", tool="", status="", metric_id="", place=(0, 4)))
    evidence = Evidence(
        events=events,
        circuits=[
            a_record(1, 1, "open", "consecutive_failures"),
            a_record(2, 2, "half_open", "wait_elapsed", [("2.1", "p1")], 1010.0),
            a_record(3, 3, "closed", "probe_succeeded", timestamp_s=1012.0),
        ],
        rows={TOOL: Row(TOOL, calls=9, failed=3, ignored=0, late=0, rejected=1, version=3)},
        dead={(0, 4)},
        rollups_differ={"counts": 0, "histograms": 0},
        permitted={TOOL: 1},
        partitions=PARTITIONS,
    )
    for event in events[:-1]:
        store(evidence, event)
    evidence.transitions = [(record.circuit, record.version, record.state) for record in evidence.circuits]
    ledger = Ledger("emitter-1", sums={"decisions": 10, "within_a_millisecond": 9}, slow=[(0.6, 500.0)])
    ledger.offered = [Offered(event.key, event.tool, event.status, event.timestamp_s) for event in events]
    ledger.acknowledged = set(range(len(events)))
    ledger.junk = {10}
    evidence.ledgers = [ledger]
    return evidence


def test_a_run_without_faults_holds_every_promise(evidence):
    results = check_promises(evidence, PROMISES)
    assert [result.promise for result in results if result.held] == [
        "no-silent-loss", "no-over-count", "one-owner-one-order", "exactly-n-probes", "transitions-stored", "call-path-never-waits",
    ]  # fmt: skip
    assert [str(result) for result in results if not result.tested] == [
        "one-tool-opens-no-server: not tested (servers opened 0 times, and 0 times a tool of theirs that failed alone)"
    ]
    assert str(results[0]) == (
        "no-silent-loss: held (11 offered, 11 acknowledged, 10 of them stored, 1 dead-lettered, 0 records of garbage elsewhere)"
    )
    assert "1 recoveries of tools and 0 of servers exact" in str(results[3])


def test_a_lost_row_is_found(evidence):
    evidence.stored.pop(2)
    assert any("call-2" in fault for fault in only(evidence, "no-silent-loss"))


def test_an_acknowledged_event_that_is_in_no_topic_is_found(evidence):
    evidence.ledgers[0].offered.append(Offered("gone", TOOL, "success", 1.0))
    evidence.ledgers[0].acknowledged.add(11)
    assert only(evidence, "no-silent-loss") == ["gone of emitter-1 was acknowledged and is not in the topic"]


def test_an_event_of_unknown_outcome_may_be_missing_and_may_be_there(evidence):
    evidence.ledgers[0].offered.append(Offered("gone", TOOL, "success", 1.0))
    evidence.ledgers[0].acknowledged.discard(3)
    assert not broken(evidence)


def test_a_record_that_is_stored_and_a_dead_letter_at_once_is_found(evidence):
    evidence.dead.add(evidence.stored[0].place)
    assert any("at once" in fault for fault in only(evidence, "no-silent-loss"))


def test_garbage_without_a_dead_letter_is_found(evidence):
    evidence.garbage = {("chaos.commands", 1, 5), ("chaos.circuits", 2, 6)}
    evidence.buried = {("chaos.commands", 1, 5)}
    assert only(evidence, "no-silent-loss") == ["the garbage at 6 of partition 2 of chaos.circuits isn't a dead letter"]


def test_a_lost_dead_letter_is_found(evidence):
    evidence.dead.clear()
    assert any("(0, 4)" in fault for fault in only(evidence, "no-silent-loss"))


def test_an_event_that_no_ledger_knows_must_be_stored(evidence):
    evidence.events.append(an_event(11, key="foreign", status="rejected"))
    evidence.rows[TOOL].rejected += 1
    assert only(evidence, "no-silent-loss") == [
        f"the record at ({HOME}, 11) ({TOOL}) is neither stored nor a dead letter"
    ]


def test_an_event_that_its_marked_copy_has_overtaken_need_not_be_stored_and_one_before_its_copy_must(evidence):
    evidence.events += [an_event(11, key="held up", resent=True), an_event(12, key="held up")]
    store(evidence, evidence.events[-2])
    evidence.rows[TOOL].calls += 1
    assert not broken(evidence)
    evidence.events[-2:] = [an_event(11, key="held up"), an_event(12, key="held up", resent=True)]
    evidence.stored[-1].place = (HOME, 12)
    assert only(evidence, "no-silent-loss") == [
        f"the record at ({HOME}, 11) ({TOOL}) is neither stored nor a dead letter"
    ]


@pytest.mark.parametrize("name", ["calls", "failed", "rejected"])
def test_a_total_that_is_too_low_is_a_loss_and_one_too_high_an_over_count(evidence, name):
    check_a_wrong_total(evidence, TOOL, name)


def test_a_circuit_without_a_row_is_found(evidence):
    evidence.rows.clear()
    assert set(broken(evidence)) == {"no-silent-loss", "one-owner-one-order"}


def test_a_doubled_row_is_found(evidence):
    evidence.stored.append(evidence.stored[0])
    faults = only(evidence, "no-over-count")
    assert f"metric_id id-call-0 is stored 2 times: ({HOME}, 0), ({HOME}, 0)" in faults
    assert f"the record at ({HOME}, 0) is stored 2 times" in faults


def test_a_rollup_that_differs_is_found(evidence):
    evidence.rollups_differ = {"counts": 3, "histograms": 0}
    assert only(evidence, "no-over-count") == ["rollup counts: 3 keys differ"]


def test_an_event_sent_again_counts_once(evidence):
    evidence.events.append(an_event(11, key="call-0", resent=True))
    assert not broken(evidence)
    evidence.rows[TOOL].calls += 1
    assert only(evidence, "no-over-count") == [
        f"{TOOL}: the worker counted 10 calls of 9 (1 were sent again by their producer)"
    ]


def test_an_event_sent_again_under_a_clock_far_ahead_may_count_twice_and_is_stored_once(evidence):
    evidence.events.append(an_event(11, key="call-0", resent=True, recorded_s=1600.0))
    assert not broken(evidence)
    evidence.rows[TOOL].calls += 1
    assert not broken(evidence)
    evidence.rows[TOOL].calls += 1
    assert only(evidence, "no-over-count")


def test_a_late_event_sent_again_may_be_late_twice_and_never_a_call(evidence):
    for offset in (11, 12):
        evidence.events.append(an_event(offset, key="late", resent=offset == 12, recorded_s=500.0))
    store(evidence, evidence.events[-2])
    for late in (1, 2):
        evidence.rows[TOOL].late = late
        assert not broken(evidence)
    evidence.rows[TOOL].late = 3
    assert only(evidence, "no-over-count")


def test_a_copy_for_the_owner_counts_once_and_is_not_stored(evidence):
    evidence.events.append(an_event(0, key="astray", place=((HOME + 1) % PARTITIONS, 0)))
    store(evidence, evidence.events[-1])
    assert any("was not sent on" in fault for fault in only(evidence, "no-silent-loss"))
    for offset in (11, 12):
        evidence.events.append(an_event(offset, key="astray", origin=((HOME + 1) % PARTITIONS, 0)))
    evidence.rows[TOOL].calls += 1
    assert not broken(evidence)


def test_late_events_are_stored_and_counted_as_late(evidence):
    evidence.events.append(an_event(11, recorded_s=1011.0 - 301))
    store(evidence, evidence.events[-1])
    assert any("0 late of 1" in fault for fault in only(evidence, "no-silent-loss"))
    evidence.rows[TOOL].late = 1
    assert not broken(evidence)


def test_a_version_that_goes_back_is_found(evidence):
    evidence.circuits.append(a_record(5, 3, "closed"))
    evidence.circuits.append(a_record(4, 3, "closed", "zombie"))
    evidence.transitions += [(TOOL, 5, "closed"), (TOOL, 4, "closed")]
    evidence.rows[TOOL].version = 5
    assert only(evidence, "one-owner-one-order") == [f"{TOOL}: version 4 after 5"]


def test_a_record_published_again_unchanged_is_harmless(evidence):
    evidence.circuits.append(evidence.circuits[0])
    assert not broken(evidence)


def test_two_contents_of_one_version_are_found(evidence):
    evidence.circuits.append(a_record(3, 3, "closed", "zombie"))
    assert only(evidence, "one-owner-one-order") == [f"{TOOL}: two contents of version 3"]


def test_a_generation_that_falls_is_found(evidence):
    evidence.circuits.append(a_record(4, 2, "open"))
    evidence.transitions.append((TOOL, 4, "open"))
    evidence.rows[TOOL].version = 4
    assert only(evidence, "one-owner-one-order") == [f"{TOOL}: generation 2 after 3 in version 4"]


def test_a_table_that_disagrees_with_the_followers_is_found(evidence):
    evidence.rows[TOOL].version = 2
    assert only(evidence, "one-owner-one-order") == [
        f"{TOOL}: followers conclude version 3, the worker's table has version 2"
    ]


def test_a_record_in_another_partition_than_its_owners_is_found(evidence):
    evidence.circuits[-1].partition = HOME + 1
    assert only(evidence, "one-owner-one-order") == [
        f"{TOOL}: records in partition {HOME + 1}, but its owner's is {HOME}"
    ]


def an_extra_probe(evidence, **fields):
    evidence.events.append(an_event(11, **({"generation": 2, "lease_id": "2.2", "key": "extra"} | fields)))
    store(evidence, evidence.events[-1])
    evidence.rows[TOOL].calls += 1
    evidence.rows[TOOL].failed += fields.get("status") == "error"


def test_an_extra_probe_is_found(evidence):
    an_extra_probe(evidence)
    faults = only(evidence, "exactly-n-probes")
    assert f"{TOOL}: 2 probes of 1 in generation 2" in faults
    assert any("2.2, which was not granted" in fault for fault in faults)


def test_two_calls_under_one_lease_are_found(evidence):
    an_extra_probe(evidence, lease_id="2.1")
    assert f"{TOOL}: two probes under one lease in generation 2" in only(evidence, "exactly-n-probes")


def test_a_probe_under_the_lease_of_another_process_is_found(evidence):
    evidence.events[9].emitter_id = "thief"
    assert only(evidence, "exactly-n-probes") == [f"{TOOL}: a probe of thief under 2.1, which was not granted to it"]


def test_a_recovery_with_fewer_probes_than_permitted_is_found(evidence):
    evidence.events[9].lease_id = None
    assert only(evidence, "exactly-n-probes") == [f"{TOOL} recovered in generation 2 by 0 probes of 1"]


def test_a_recovery_helped_by_calls_without_a_guard_may_have_fewer_probes(evidence):
    evidence.events[9].lease_id = evidence.events[9].generation = None
    assert not broken(evidence)


def test_a_missing_and_an_invented_transition_are_found(evidence):
    evidence.transitions[0] = (TOOL, 9, "open")
    assert only(evidence, "transitions-stored") == [
        f"{TOOL} version 1 (open) is not stored",
        f"{TOOL} version 9 (open) is stored and was never published",
    ]


def test_a_decision_that_waited_is_found_unless_the_process_was_stopped(evidence):
    evidence.ledgers[0].slow.append((6.0, 600.0))
    assert only(evidence, "call-path-never-waits") == ["a decision of emitter-1 took 6.00 s"]
    evidence.pauses = [("emitter-2", 599.0, 607.0)]
    assert only(evidence, "call-path-never-waits")
    evidence.pauses = [("emitter-1", 601.0, 606.0)]
    assert not broken(evidence)


def test_a_decision_that_raised_is_found(evidence):
    evidence.ledgers[0].raised.append("ValueError()")
    assert only(evidence, "call-path-never-waits") == ["a decision of emitter-1 raised ValueError()"]


def test_a_broken_promise_shows_its_first_ten_faults():
    said = str(PromiseResult("no-silent-loss", "3 lost", 3, [f"fault {number}" for number in range(12)]))
    assert said.startswith("no-silent-loss: BROKEN (3 lost; 12 faults: fault 0; ")
    assert said.endswith("fault 9; 2 more)")


def test_a_promise_without_evidence_is_not_tested_and_counts_as_neither():
    results = check_promises(Evidence(), PROMISES)
    assert [(result.held, result.broken) for result in results] == [(False, False)] * len(PROMISES)
    assert all(": not tested (" in str(result) for result in results)
    assert not Report(results).held
    held = PromiseResult("a", "1 call", 1)
    assert Report([*results, held]).held
    assert not Report([held, PromiseResult("b", "", 0, ["a fault"])]).held


def test_probes_that_nobody_made_are_no_evidence(evidence):
    evidence.events = [event for event in evidence.events if not event.lease_id]
    evidence.circuits = []
    (result,) = (each for each in check_promises(evidence, PROMISES) if each.promise == "exactly-n-probes")
    assert str(result).startswith("exactly-n-probes: not tested (0 probes")
