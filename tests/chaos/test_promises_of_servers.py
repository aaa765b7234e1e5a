"""The verifier, fed with doctored data of a server's circuit: each fault that it is there to find, it finds."""

import pytest

from tests.chaos.doctored import PARTITIONS, a_record, an_event, broken, check_a_wrong_total, only, store
from tests.chaos.evidence import Evidence, Row
from tests.chaos.promises.all_promises import PROMISES
from tests.chaos.promises.result import check_promises
from tests.chaos.servers import owner

pytestmark = pytest.mark.deep

A, B, SERVER = "mcp:one:a", "mcp:one:b", "mcp:one|family"
HOME = owner(SERVER, PARTITIONS)
OPENED, CLOSED = 6, 9
"""Offsets of the events that opened and closed the server's circuit, at 1006 and 1009 s."""


def an_event_of(offset, tool, status="success", error_class=None, **fields):
    given = {"server_generation": 0} | fields
    return an_event(offset, tool=tool, status=status, error_class=error_class, **given)


def a_record_of_server(version, generation, state, rule="", leases=(), timestamp_s=1000.0, **fields):
    return a_record(version, generation, state, rule, leases, timestamp_s, SERVER, **fields)


@pytest.fixture
def evidence():
    """A run in which all was well: the tools of a server fail, its circuit opens, and one probe closes it. Then it answers with errors."""
    evidence = Evidence(
        events=[
            an_event_of(0, A),
            an_event_of(1, B),
            an_event_of(2, A),
            an_event_of(3, B),
            an_event_of(4, A, "error", "transport"),
            an_event_of(5, B, "timeout"),
            an_event_of(OPENED, A, "error", "transport"),
            an_event_of(7, A, "rejected", server_generation=1),
            an_event_of(8, B, "rejected", server_generation=1),
            an_event_of(CLOSED, A, server_generation=2, server_lease_id="2.1"),
            an_event_of(10, B, "error", "tool", server_generation=3),
            an_event_of(11, B, "error", "unknown", server_generation=3),
            an_event_of(12, A, "rejected", server_generation=3),
        ],
        circuits=[
            a_record_of_server(
                1, 1, "open", "consecutive_failures", timestamp_s=1000.0 + OPENED, previous="closed", tools=2
            ),
            a_record_of_server(2, 2, "half_open", "wait_elapsed", [("2.1", "p1")], 1008.0, previous="open"),
            a_record_of_server(3, 3, "closed", "probe_succeeded", timestamp_s=1000.0 + CLOSED, previous="half_open"),
        ],
        rows={
            A: Row(A, calls=5, failed=2, ignored=0, late=0, rejected=2, version=0),
            B: Row(B, calls=5, failed=2, ignored=1, late=0, rejected=1, version=0),
            SERVER: Row(SERVER, calls=10, failed=3, ignored=1, late=0, rejected=2, version=3),
        },
        permitted={A: 1, B: 1, SERVER: 1},
        partitions=PARTITIONS,
    )
    for event in evidence.events:
        store(evidence, event)
    evidence.transitions = [(record.circuit, record.version, record.state) for record in evidence.circuits]
    return evidence


def add(evidence, event, **counted):
    """Add an event that its tool and its server count in the same way."""
    evidence.events.append(event)
    store(evidence, event)
    for name, number in counted.items():
        for circuit in (event.tool, SERVER):
            setattr(evidence.rows[circuit], name, getattr(evidence.rows[circuit], name) + number)


def test_a_run_without_faults_holds_every_promise_about_its_servers(evidence):
    results = {result.promise: result for result in check_promises(evidence, PROMISES)}
    assert [name for name, result in results.items() if not result.held] == [
        "call-path-never-waits"
    ]  # there is no guard
    assert not results["call-path-never-waits"].tested
    assert "2 tools counted 10 calls, 1 servers 10 of them" in results["no-over-count"].summary
    assert "1 circuits, 1 of them of servers" in results["one-owner-one-order"].summary
    assert "0 recoveries of tools and 1 of servers exact" in results["exactly-n-probes"].summary
    assert "servers opened 1 times" in results["one-tool-opens-no-server"].summary


@pytest.mark.parametrize("name", ["calls", "failed", "ignored", "rejected"])
def test_a_total_of_a_server_that_is_too_low_is_a_loss_and_one_too_high_an_over_count(evidence, name):
    check_a_wrong_total(evidence, SERVER, name)


def test_a_server_without_a_row_is_found(evidence):
    del evidence.rows[SERVER]
    assert set(broken(evidence)) == {"no-silent-loss", "one-owner-one-order"}


def test_a_refusal_in_the_millisecond_of_a_change_may_count_for_the_server_or_not(evidence):
    evidence.events[12].timestamp_s = evidence.events[CLOSED].timestamp_s
    for rejected in (2, 3):
        evidence.rows[SERVER].rejected = rejected
        assert not broken(evidence)
    evidence.rows[SERVER].rejected = 4
    assert only(evidence, "no-over-count")


def test_a_late_event_that_the_server_counts_as_a_call_is_found(evidence):
    add(evidence, an_event_of(13, A, recorded_s=500.0), late=1)
    assert not broken(evidence)
    evidence.rows[SERVER].late = 0
    evidence.rows[SERVER].calls += 1
    assert set(broken(evidence)) == {"no-silent-loss", "no-over-count"}


def test_an_event_sent_again_counts_once_for_the_server(evidence):
    evidence.events.append(an_event_of(13, A, key="call-0", resent=True))
    assert not broken(evidence)
    evidence.rows[SERVER].calls += 1
    assert only(evidence, "no-over-count") == [
        f"{SERVER}: the worker counted 11 calls of 10 (1 were sent again by their producer)"
    ]


def test_an_event_that_did_not_reach_the_owner_of_its_server_is_found(evidence):
    astray = (HOME + 1) % PARTITIONS
    event = an_event_of(0, A, key="astray", place=(astray, 0))
    evidence.events.append(event)
    store(evidence, event)
    assert only(evidence, "no-silent-loss") == [
        f"astray of {A} in the wrong partition ({astray}, 0) was not sent on to its owner"
    ]


def test_a_version_of_a_server_that_goes_back_is_found(evidence):
    evidence.circuits.reverse()
    assert f"{SERVER}: version 2 after 3" in only(evidence, "one-owner-one-order")


def test_a_generation_of_a_server_that_falls_is_found(evidence):
    evidence.circuits.append(a_record_of_server(4, 2, "closed"))
    evidence.transitions.append((SERVER, 4, "closed"))
    evidence.rows[SERVER].version = 4
    assert only(evidence, "one-owner-one-order") == [f"{SERVER}: generation 2 after 3 in version 4"]


def test_records_of_a_server_in_another_partition_than_its_tools_are_found(evidence):
    evidence.circuits.append(a_record(1, 1, "open", circuit=A, timestamp_s=1000.0 + OPENED))
    evidence.transitions.append((A, 1, "open"))
    evidence.rows[A].version = 1
    assert not broken(evidence)
    other = (HOME + 1) % PARTITIONS
    for record in evidence.circuits[:3]:
        record.partition = other
    assert only(evidence, "one-owner-one-order") == [
        f"{SERVER}: records in partition {other}, but its owner's is {HOME}"
    ]


def test_probes_of_two_tools_where_the_server_permits_one_are_found(evidence):
    add(evidence, an_event_of(13, B, server_generation=2, server_lease_id="2.2"), calls=1)
    faults = only(evidence, "exactly-n-probes")
    assert f"{SERVER}: 2 probes of 1 in generation 2" in faults
    assert f"{SERVER}: a probe of p1 under 2.2, which was not granted to it" in faults


def test_calls_of_two_tools_under_one_lease_of_their_server_are_found(evidence):
    add(evidence, an_event_of(13, B, server_generation=2, server_lease_id="2.1"), calls=1)
    assert f"{SERVER}: two probes under one lease in generation 2" in only(evidence, "exactly-n-probes")


def test_the_lease_of_a_server_is_no_lease_of_its_tool(evidence):
    probe = evidence.events[CLOSED]
    probe.lease_id, probe.server_lease_id = "2.1", None
    assert set(broken(evidence)) == {"exactly-n-probes"}
    assert f"{A}: a probe of p1 under 2.1, which was not granted to it" in only(evidence, "exactly-n-probes")


def test_a_recovery_of_a_server_with_fewer_probes_than_permitted_is_found(evidence):
    evidence.permitted = {SERVER: 3}
    assert only(evidence, "exactly-n-probes") == [f"{SERVER} recovered in generation 2 by 1 probes of 3"]


def test_a_recovery_of_a_server_helped_by_calls_without_a_guard_may_have_fewer_probes(evidence):
    evidence.events[CLOSED].server_lease_id = evidence.events[CLOSED].server_generation = None
    assert not broken(evidence)


def test_an_error_with_which_the_server_answers_is_a_good_probe(evidence):
    evidence.events[CLOSED].status, evidence.events[CLOSED].error_class = "error", "tool"
    evidence.rows[A].ignored += 1
    assert not broken(evidence)


def test_a_server_that_opened_by_the_failures_of_one_tool_is_found(evidence):
    evidence.events[5].status = "success"
    evidence.rows[B].failed -= 1
    evidence.rows[SERVER].failed -= 1
    assert only(evidence, "one-tool-opens-no-server") == [f"{SERVER} opened in version 1 by the failures of ['{A}']"]


def test_a_failure_of_another_tool_before_the_window_opens_no_server(evidence):
    evidence.events[5].timestamp_s = 1001.9
    assert only(evidence, "one-tool-opens-no-server") == [f"{SERVER} opened in version 1 by the failures of ['{A}']"]
    evidence.events[5].timestamp_s = 1002.0
    assert not broken(evidence)


def test_an_error_with_which_another_tool_answered_opens_no_server(evidence):
    evidence.events[5].status, evidence.events[5].error_class = "error", "server"
    evidence.rows[SERVER].failed -= 1
    assert only(evidence, "one-tool-opens-no-server")


@pytest.mark.parametrize("tools", [None, 1])
def test_the_open_of_a_server_whose_record_names_too_few_tools_is_found(evidence, tools):
    evidence.circuits[0].tools = tools
    assert only(evidence, "one-tool-opens-no-server") == [f"{SERVER}: version 1 names {tools} failing tools"]


def test_a_failed_probe_opens_a_server_again_by_one_tool(evidence):
    evidence.events[CLOSED].status, evidence.events[CLOSED].error_class = "error", "transport"
    evidence.rows[A].failed += 1
    evidence.rows[SERVER].failed += 1
    evidence.rows[SERVER].rejected += 1
    evidence.circuits[2] = a_record_of_server(3, 3, "open", "probe_failed", timestamp_s=1009.0, previous="half_open")
    evidence.transitions[2] = (SERVER, 3, "open")
    assert not broken(evidence)


def test_a_tool_that_fails_alone_opens_only_its_own_circuit(evidence):
    add(evidence, an_event_of(20, A, "error", "transport", server_generation=3), calls=1, failed=1)
    evidence.circuits.append(a_record(1, 1, "open", circuit=A, timestamp_s=1020.0, previous="closed"))
    evidence.transitions.append((A, 1, "open"))
    evidence.rows[A].version = 1
    results = {result.promise: result for result in check_promises(evidence, PROMISES)}
    assert str(results["one-tool-opens-no-server"]) == (
        "one-tool-opens-no-server: held (servers opened 1 times, and 1 times a tool of theirs that failed alone)"
    )
