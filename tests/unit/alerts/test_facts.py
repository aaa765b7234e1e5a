"""A record of the circuits topic is read, or refused with a reason."""

import pytest

from switchgear_alerts.facts import UnreadableRecordError, read_circuit
from switchgear_alerts.messages import incident_id
from switchgear_schemas.circuit import Cause
from tests.support.alerting import circuit_record


def test_a_record_gives_the_cause_in_words_and_the_times_in_seconds():
    found = read_circuit(
        circuit_record("search", "open", 3, 1_795_262_400.5, open_until="2026-11-21T12:00:30Z").to_bytes()
    )
    assert found.facts.why == "5 calls in a row failed (the limit is 5)"
    assert found.facts.last_error == "ConnectionError: refused"
    assert (found.version, found.generation, found.changed_at) == (4, 3, 1_795_262_400.5)
    assert found.facts.open_until == 1_795_262_430


def test_a_circuit_that_an_operator_opened_for_a_time_is_forced_open_until_then():
    forced = circuit_record(
        "search",
        "open",
        3,
        cause=Cause(rule="command", actor="ada", reason="repair"),
        open_until="2026-11-21T13:00:00Z",
    )
    found = read_circuit(forced.to_bytes()).facts
    assert (found.state, found.why) == ("forced_open", "forced open by ada: repair")
    assert found.stands_until == found.open_until == 1_795_266_000


@pytest.mark.parametrize("at", ["9999-12-31T23:59:00Z", "0001-01-01T00:00:00Z"])
def test_a_circuit_that_changed_in_a_year_that_can_not_be_is_refused(at):
    with pytest.raises(UnreadableRecordError, match="changed_at"):
        read_circuit(circuit_record("search", "open", 3, changed_at=at).to_bytes())


def test_a_long_error_is_cut_and_stays_on_one_line():
    found = read_circuit(circuit_record("search", "open", 3, last_error="a\nb\u202e " * 500).to_bytes())
    assert len(found.facts.last_error) == 500
    assert found.facts.last_error.isprintable()


@pytest.mark.parametrize(
    ("value", "said"), [(b"", "empty"), (b"{}", "circuit_id"), (b'{"circuit_id": 1}', "circuit_id")]
)
def test_what_is_no_circuit_is_refused(value, said):
    with pytest.raises(UnreadableRecordError, match=said):
        read_circuit(value)


def test_an_incidents_id_fits_into_a_header_and_differs_for_names_that_differ_at_the_end():
    names = ["search", "büro suche\n", "x" * 400, "x" * 399 + "y"]
    ids = [incident_id(name, 7) for name in names]
    assert ids[0] == "search@7"
    assert len(set(ids)) == 4
    assert all(each.isascii() and each.isprintable() and " " not in each and len(each) < 220 for each in ids)


def test_an_incidents_id_has_the_second_of_its_opening_if_the_circuit_counts_its_generations_anew():
    assert incident_id("search|user=ada", 1, 1_795_262_400.5) == "search|user=ada@1-1795262400"


def test_two_fleets_with_a_circuit_of_one_name_have_incidents_of_their_own():
    ids = {incident_id(circuit, 7, fleet=fleet) for circuit in ("search", "x" * 500) for fleet in ("eu-1", "us-1", "")}
    assert len(ids) == 6
    assert {"eu-1/search@7", "us-1/search@7", "search@7"} < ids
    assert max(map(len, ids)) < 200
