"""The life of an incident: any sequence of records gives openings and ends that belong together."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import Breaker
from switchgear.breaker.values import Result, ResultKind
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.rows import Row
from switchgear_alerts import incidents
from switchgear_alerts.facts import read_circuit
from switchgear_alerts.incidents import CircuitIncidents, FlapRules, observe, settle
from switchgear_schemas import BreakerPolicy, Cause
from tests.support.alert_values import NOON, seen

STATES = ("closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
NO_FLAPS = FlapRules(opens=0)


def play(states, rules=NO_FLAPS, every=10.0):
    """The changes of a circuit that goes through these states, one each ``every`` seconds."""
    known, found = CircuitIncidents(), []
    for number, state in enumerate(states, 1):
        known, changes = observe(known, seen("search", state, number, NOON + number * every), rules)
        found += changes
    return known, found


def kinds(changes):
    return [change.kind for change in changes]


def test_an_incident_opens_with_the_circuit_and_ends_when_it_closes():
    _, found = play(["open", "half_open", "closed"])
    assert [(change.kind, change.incident, change.at - NOON) for change in found] == [
        ("opened", "search@1", 10),
        ("resolved", "search@1", 30),
    ]
    assert [change.id for change in found] == ["search@1:opened", "search@1:resolved"]


def test_a_failed_probe_keeps_the_incident_and_the_cause_of_its_opening():
    known, changes = observe(CircuitIncidents(), seen("search", "open", 1, NOON, why="8 of 8 calls failed"), NO_FLAPS)
    known, _ = observe(known, seen("search", "half_open", 2, NOON + 30, why="the wait is over"), NO_FLAPS)
    known, again = observe(
        known, seen("search", "open", 3, NOON + 31, why="the probe call failed", open_until=NOON + 91), NO_FLAPS
    )
    assert kinds(changes) == ["opened"]
    assert again == []
    assert known.incident.facts.why == "8 of 8 calls failed"
    assert known.incident.facts.open_until == NOON + 91


def test_an_operator_who_forces_an_open_circuit_updates_the_incident_and_acknowledges_it():
    _, found = play(["open", "forced_open", "closed"])
    assert kinds(found) == ["opened", "updated", "resolved"]
    assert found[1].acknowledged
    assert found[1].id == "search@1:updated-1"


def test_a_command_for_a_time_holds_while_the_worker_publishes_other_causes_and_is_no_reason_after_a_failed_probe():
    policy = BreakerPolicy()
    live = LiveCircuit(Row(circuit_id="search", tool_name="search"), Breaker("search", policy, NOON), policy)
    known = CircuitIncidents()

    def after(published):
        nonlocal known
        known, changes = observe(known, read_circuit(published.value), NO_FLAPS)
        return kinds(changes), known.incident.held, known.incident.facts.state

    def forced(at, actor):
        return live.command("force_open", at, actor=actor, reason="repair", until=NOON + 3600, policy=None)

    assert after(forced(NOON, "ada")) == (["opened"], "forced_open", "forced_open")
    assert known.incident.facts.stands_until == NOON + 3600
    assert after(live.next_record(NOON + 5, Cause(rule="set_policy", actor="bob"))) == (
        [],
        "forced_open",
        "forced_open",
    )
    assert known.incident.facts.why == "forced open by ada: repair"
    assert after(forced(NOON + 6, "eve")) == ([], "forced_open", "forced_open")
    assert known.incident.facts.why == "forced open by eve: repair"
    transition = live.breaker.request_lease(NOON + 3600, "one")
    assert after(live.follow(transition, NOON + 3600)) == ([], "forced_open", "half_open")
    assert known.incident.facts.stands_until is None
    lease = live.breaker.leases[0].lease_id
    for each in range(policy.permitted_number_of_calls_in_half_open_state):
        failed = Result(kind=ResultKind.FAILURE, duration_ms=1.0)
        transition = live.breaker.record_event(NOON + 3601, failed, live.breaker.generation, lease)
        if transition is not None:
            break
        live.breaker.request_lease(NOON + 3601, f"more-{each}")
        lease = live.breaker.leases[-1].lease_id
    assert after(live.follow(transition, NOON + 3601)) == ([], "open", "open")
    assert "failed" in known.incident.facts.why
    assert "eve" not in known.incident.facts.why


def test_a_command_for_a_time_updates_an_incident_of_an_open_circuit_in_the_same_generation():
    opened = seen("search", "open", 1, NOON)
    known, _ = observe(CircuitIncidents(), opened, NO_FLAPS)
    forced = seen("search", "forced_open", 1, NOON, rule="command", why="forced open by ada")
    known, changes = observe(known, dataclasses.replace(forced, version=2), NO_FLAPS)
    assert (kinds(changes), changes[0].acknowledged) == (["updated"], True)
    known, changes = observe(known, dataclasses.replace(opened, version=3), NO_FLAPS)
    assert changes == []
    assert (known.incident.held, known.incident.facts.why) == ("forced_open", "forced open by ada")


def test_disabling_the_breaker_ends_the_incident_and_says_so():
    _, found = play(["open", "disabled"])
    assert found[-1].note == "an operator disabled the circuit"


def test_the_third_opening_within_the_period_is_one_incident_that_flaps_until_the_circuit_stays_closed():
    rules = FlapRules(opens=3, within_s=600, settle_s=300)
    known, found = play(["open", "closed"] * 6, rules)
    assert kinds(found) == ["opened", "resolved", "opened", "resolved", "opened"]
    assert found[-1].flapping
    assert "3 times within 10 min" in found[-1].note
    closed_at = NOON + 120
    assert settle(known, closed_at + 299, rules)[1] == []
    after, ended = settle(known, closed_at + 300, rules)
    assert kinds(ended) == ["resolved"]
    assert ended[0].opens == 4
    assert ended[0].at == closed_at
    assert after.idle


def test_openings_that_are_far_apart_do_not_flap():
    _, found = play(["open", "closed"] * 6, FlapRules(opens=3, within_s=600), every=301)
    assert not any(change.flapping for change in found)


def test_a_record_that_is_older_than_the_last_one_changes_nothing():
    known, _ = play(["open", "closed", "open"])
    assert observe(known, seen("search", "closed", 2, NOON), NO_FLAPS) == (known, [])


def test_a_lower_version_with_a_later_time_counts_because_the_topic_was_created_again():
    known, _ = play(["closed", "closed", "open"])
    assert kinds(observe(known, seen("search", "closed", 1, NOON + 3600), NO_FLAPS)[1]) == ["resolved"]


def test_the_incidents_of_a_users_circuit_that_came_back_after_its_removal_have_ids_of_their_own():
    ids = []
    for begins in (NOON, NOON, NOON + 86_400):  # the first record comes twice, after a restart
        known, _ = observe(
            CircuitIncidents(), seen("search|user=ada", "open", 1, begins, scope="user"), FlapRules(opens=3)
        )
        ids.append(known.incident.id)
    assert ids[0] == ids[1] != ids[2]


def test_a_removed_circuit_ends_its_incident():
    known, _ = play(["open"])
    after, changes = incidents.remove(known, NOON + 60)
    assert kinds(changes) == ["resolved"]
    assert after.idle


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(STATES), st.floats(0, 400)), max_size=60), st.integers(0, 4))
def test_any_records_give_incidents_that_open_once_and_end_once_one_at_a_time(steps, flap_opens):
    rules = FlapRules(opens=flap_opens, within_s=300, settle_s=100)
    known, found, now = CircuitIncidents(), [], NOON
    for number, (state, later) in enumerate(steps, 1):
        now += later
        known, ended = settle(known, now, rules)
        known, changes = observe(known, seen("search", state, number, now), rules)
        found += [*ended, *changes]
    known, ended = settle(known, now + 1000, rules)
    found += ended
    open_now = None
    for change in found:
        if change.kind == "opened":
            assert open_now is None
            open_now = change.incident
        else:
            assert change.incident == open_now
            assert change.at >= change.opened_at
            open_now = None if change.kind == "resolved" else open_now
    assert (known.incident.id if known.incident else None) == open_now
    assert len({change.id for change in found}) == len(found)
    if steps and steps[-1][0] in ("closed", "disabled", "metrics_only"):
        assert known.incident is None
    if steps and steps[-1][0] in ("open", "forced_open"):
        assert known.incident is not None
