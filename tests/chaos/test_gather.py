"""Reading the evidence without any code of ours: held against what the product writes."""

import json
import random
import uuid
from types import SimpleNamespace

import pytest

from switchgear.fleet.rows import Row as ProductRow
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.command import Command
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.families import family_of
from switchgear_schemas.partitioner import partition_of
from tests.chaos.evidence import GARBAGE
from tests.chaos.faults.foreign_input import junk
from tests.chaos.faults.poison import IMPOSSIBLE, command, oversized
from tests.chaos.gather import circuit_of, event_of, instant, is_garbage, newest_rows, origin_of
from tests.chaos.servers import owner, server_circuit, server_of

pytestmark = pytest.mark.deep


def record(value, *, key=b"search", offset=4, headers=()):
    return SimpleNamespace(
        key=key, value=value, partition=2, offset=offset, timestamp=1_700_000_000_500, headers=tuple(headers)
    )


def row(applied, **fields):
    given = {"circuit_id": "search", "tool_name": "search", "applied": applied, "total_calls": applied}
    return record(ProductRow(**(given | fields)).encode())


def test_the_verifier_reads_the_same_row_as_the_worker_writes():
    kept = newest_rows([row(9, total_failed=2, total_ignored=3, late=4, total_rejected=5, version=6)])["search"]
    assert (kept.calls, kept.failed, kept.ignored, kept.late, kept.rejected, kept.version) == (9, 2, 3, 4, 5, 6)


def test_the_row_with_the_highest_counter_is_kept_in_any_order():
    assert newest_rows([row(9), row(300), row(12)])["search"].calls == 300


def test_a_tombstone_removes_a_row_and_policy_rows_are_not_circuits():
    assert newest_rows([row(9), record(None)]) == {}
    assert newest_rows([record(b"\x01anything", key=b"\xff3")]) == {}


def test_an_execution_is_read_with_its_headers():
    value = json.dumps({
        "tool_name": "search", "status": "error", "error_class": "server", "metric_id": "m", "emitter_id": "p1",
        "lease_id": "2.1", "generation": 2, "recorded_at": "2026-11-22T10:00:00+02:00", "family_generation": 5,
        "family_lease_id": "5.1",
    }).encode()  # fmt: skip
    found = event_of(record(value, headers=[("switchgear.resent", b"1"), ("switchgear.rekeyed", b"3:77")]))
    assert (found.tool, found.status, found.error_class, found.key) == ("search", "error", "server", "m")
    assert (found.place, found.origin, found.resent) == ((2, 4), (3, 77), True)
    assert (found.lease_id, found.generation, found.emitter_id) == ("2.1", 2, "p1")
    assert (found.server_lease_id, found.server_generation) == ("5.1", 5)
    assert found.recorded_s == instant("2026-11-22T08:00:00")
    assert found.timestamp_s == 1_700_000_000.5


def test_the_load_knows_a_guards_call_by_its_request():
    assert event_of(record(b'{"tool_name": "t", "status": "success", "request_id": "r", "metric_id": "m"}')).key == "r"


@pytest.mark.parametrize("seed", range(3))
def test_junk_is_not_read_as_an_execution_and_keeps_its_name(seed):
    for each in junk(random.Random(seed)):
        found = event_of(record(each.value))
        assert (found.tool, found.key) == ("", each.key)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[1]", b"null", b'{"tool_name": 3, "status": "success"}'])
def test_arbitrary_bytes_of_a_topic_are_read_without_an_error(value):
    assert event_of(record(value)).tool == ""


def test_a_circuit_is_read_with_its_leases():
    value = json.dumps({
        "circuit_id": "search", "version": 3, "generation": 2, "state": "half_open", "cause": {"rule": "wait_elapsed"},
        "changed_at": "2026-11-22T10:00:00Z", "leases": [{"lease_id": "2.1", "emitter_id": "p1", "expires_at": "x"}],
    }).encode()  # fmt: skip
    found = circuit_of(record(value))
    assert (found.circuit, found.version, found.generation, found.state) == ("search", 3, 2, "half_open")
    assert (found.rule, found.leases, found.partition) == ("wait_elapsed", (("2.1", "p1"),), 2)
    assert found.changed_s == instant("2026-11-22T10:00:00+00:00")


def test_the_open_of_a_server_is_read_with_the_number_of_failing_tools():
    value = json.dumps({
        "circuit_id": "mcp:one|family", "version": 1, "generation": 1, "state": "open", "previous_state": "closed",
        "cause": {"rule": "consecutive_failures", "tools": 2}, "changed_at": "2026-11-22T10:00:00Z",
    }).encode()  # fmt: skip
    found = circuit_of(record(value))
    assert (found.circuit, found.previous, found.tools) == ("mcp:one|family", "closed", 2)


def test_a_dead_letter_leads_back_to_its_record():
    letter = DeadLetter("chaos.executions", 5, 17, 0, "why", "worker")
    assert origin_of(record(b"x", key=letter.key)) == ("chaos.executions", 5, 17)


def test_an_execution_of_more_than_a_mebibyte_is_invalid_and_keeps_its_name():
    (huge,) = oversized(random.Random(1))
    found = event_of(record(huge.value))
    assert (found.tool, found.key) == ("", huge.key)


def test_garbage_in_another_topic_is_recognized_by_its_header():
    assert is_garbage(record(b"x", headers=[(GARBAGE, b"1")]))
    assert not is_garbage(record(b"x", headers=[("other", None)]))


@pytest.mark.parametrize("rule", IMPOSSIBLE)
def test_every_impossible_policy_is_one_that_the_contract_refuses(rule):
    with pytest.raises(InvalidExecutionError):
        Command.from_bytes(command("search", rule, uuid.UUID(int=7)))


def test_the_command_around_the_policies_is_one_that_the_contract_takes():
    assert Command.from_bytes(command("search", '"sliding_window_size":30', uuid.UUID(int=7))).verb == "set_policy"


@pytest.mark.parametrize("name", ["mcp:a:b", "mcp:a:b:c", "mcp:a", "mcp:a:", "mcp::b", "guarded:one-0:tool", "search"])
def test_tools_and_servers_belong_together_as_the_product_says(name):
    server = server_of(name)
    assert server == family_of(name)
    assert owner(name, 6) == partition_of(name, 6)
    if server is not None:
        assert server_circuit(server) == circuit_id(server, "family")
        assert owner(server_circuit(server), 6) == partition_of(server, 6) == owner(name, 6)


def test_tools_belong_to_the_partitions_that_the_product_gives_them():
    assert all(owner(f"tool-{n}", 6) == partition_of(f"tool-{n}", 6) for n in range(100))
