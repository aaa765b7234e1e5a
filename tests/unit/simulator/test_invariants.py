"""The invariants alone, on histories written by hand."""

from types import SimpleNamespace

import msgspec
import pytest

from switchgear.fleet import Message, Row
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT
from tests.simulator.invariants.broken import Histories, InvariantBrokenError
from tests.simulator.invariants.probes import Probes
from tests.simulator.invariants.records import Records


@pytest.fixture
def simulation():
    return SimpleNamespace(stale_writes=False)


@pytest.fixture
def histories():
    return Histories(lambda: 12.5, "again --seed 1")


def record(version, state="open", generation=None, leases=()):
    return {
        "circuit_id": "search",
        "tool_name": "search",
        "version": version,
        "generation": version if generation is None else generation,
        "state": state,
        "cause": {"rule": "cusum"},
        "open_until": None,
        "leases": [{"lease_id": lease, "emitter_id": holder} for lease, holder in leases],
    }


def publish(records, one):
    message = Message("c", 0, 0, 0, b"search", msgspec.json.encode(one))
    return records.published(one, message)


def test_a_broken_invariant_is_reported_with_seed_time_and_history(histories):
    histories.note("search", "version {}", 7)
    histories.note("other", "not this")
    error = histories.broken("some-promise", "search", "it broke")
    assert str(error).splitlines() == [
        "some-promise: BROKEN at 12.500 s, search: it broke",
        "  what happened to it before:",
        "          12.500 s  version 7 Again: again --seed 1",
    ]
    assert (error.invariant, error.circuit_id, error.at_s) == ("some-promise", "search", 12.5)
    assert "(nothing)" in str(histories.broken("p", "unknown", "w"))


def test_the_history_of_a_circuit_is_bounded(histories):
    for number in range(1_000):
        histories.note("search", "{}", number)
    assert len(str(histories.broken("p", "search", "w")).splitlines()) < 70


def test_a_higher_version_is_new_and_the_same_record_again_is_not(simulation, histories):
    records = Records(simulation, histories)
    assert publish(records, record(1))
    assert publish(records, record(2, "half_open"))
    assert not publish(records, record(2, "half_open"))
    assert (records.seen, records.repeated) == (3, 1)


def test_one_version_with_two_contents_is_broken_unless_a_replaced_owner_wrote_it(simulation, histories):
    records = Records(simulation, histories)
    publish(records, record(2))
    simulation.stale_writes = True
    assert not publish(records, record(1, "closed"))
    simulation.stale_writes = False
    for stale in (record(1), record(2, "closed")):
        with pytest.raises(InvariantBrokenError, match="another content"):
            publish(records, stale)


@pytest.mark.parametrize(("state", "generation"), [("closed", 5), ("open", 4), ("closed", 4)])
def test_a_change_of_state_without_a_new_generation_or_one_that_falls_is_broken(
    simulation, histories, state, generation
):
    records = Records(simulation, histories)
    publish(records, record(5, generation=5))
    with pytest.raises(InvariantBrokenError, match="open of generation 5 became"):
        publish(records, record(6, state, generation=generation))


def test_a_row_that_is_ahead_of_the_topic_lost_a_record(simulation, histories):
    records = Records(simulation, histories)
    publish(records, record(3))
    records.finish({"search": Row(circuit_id="search", tool_name="search", version=3, record=b"{}")})
    with pytest.raises(InvariantBrokenError, match="a record was lost"):
        records.finish({"search": Row(circuit_id="search", tool_name="search", version=4, record=b"{}")})


def permit(lease_id, family_lease_id=None):
    lease = None if lease_id is None else ("search", lease_id)
    family = None if family_lease_id is None else SimpleNamespace(lease=("mcp:one|family", family_lease_id))
    return SimpleNamespace(lease=lease, family=family)


SERVER = SimpleNamespace(circuit_id="mcp:one|family", policy=FAMILY_DEFAULT)
TOOL = SimpleNamespace(circuit_id="search", policy=FLEET_DEFAULT, server=SERVER)
OTHER_TOOL = SimpleNamespace(circuit_id="merge", policy=FLEET_DEFAULT, server=SERVER)
ONE, OTHER = SimpleNamespace(name="one"), SimpleNamespace(name="other")


def test_a_probe_is_in_flight_until_it_ends_or_its_process_dies(histories):
    probes = Probes(histories)
    probes.published(record(1, "half_open", leases=[("2.1", "one")]))
    probes.began(ONE, TOOL, permit("2.1"))
    probes.ended(TOOL, permit("2.1"))
    probes.published(record(2, "half_open", leases=[("2.2", "one")]))
    probes.began(ONE, TOOL, permit("2.2"))
    probes.crashed(ONE)
    probes.published(record(3, "half_open", leases=[("2.3", "other")]))
    probes.began(OTHER, TOOL, permit("2.3"))
    assert probes.line() == "at-most-n-probes: held (3 probes under 3 leases; most in flight: 1 of 1)"


def test_one_probe_too_many_is_broken(histories):
    probes = Probes(histories)
    probes.published(record(1, "half_open", leases=[("2.1", "one"), ("2.2", "other")]))
    probes.began(ONE, TOOL, permit("2.1"))
    with pytest.raises(InvariantBrokenError, match=r"2 probes in flight, 1 permitted: 2\.1 \(one\), 2\.2 \(other\)"):
        probes.began(OTHER, TOOL, permit("2.2"))


def test_a_lease_is_for_one_call_of_the_process_that_it_names(histories):
    probes = Probes(histories)
    probes.published(record(1, "half_open", leases=[("2.1", "one")]))
    with pytest.raises(InvariantBrokenError, match="which belongs to one"):
        probes.began(OTHER, TOOL, permit("2.1"))
    with pytest.raises(InvariantBrokenError, match="which belongs to no process"):
        probes.began(OTHER, TOOL, permit("9.9"))
    probes.began(ONE, TOOL, permit("2.1"))
    probes.ended(TOOL, permit("2.1"))
    with pytest.raises(InvariantBrokenError, match="a second time"):
        probes.began(ONE, TOOL, permit("2.1"))
    with pytest.raises(InvariantBrokenError, match="was for one and is now for other"):
        probes.published(record(2, "half_open", leases=[("2.1", "other")]))


def test_a_call_without_a_lease_does_not_count_as_a_probe(histories):
    probes = Probes(histories)
    probes.began(ONE, TOOL, permit(None))
    probes.ended(TOOL, permit(None))
    assert "(0 probes under 0 leases; most in flight: none)" in probes.line()


def test_probes_of_a_server_are_counted_over_all_its_tools(histories):
    probes = Probes(histories)
    granted = record(1, "half_open", leases=[("2.1", "one"), ("2.2", "other")]) | {"circuit_id": SERVER.circuit_id}
    probes.published(granted)
    probes.began(ONE, TOOL, permit(None, "2.1"))
    with pytest.raises(InvariantBrokenError, match="2 probes in flight, 1 permitted"):
        probes.began(OTHER, OTHER_TOOL, permit(None, "2.2"))
