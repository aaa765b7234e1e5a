"""The table keeps the highest version of every circuit, whatever order and junk the topic brings."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime

import pytest

from switchgear.follower.table import CircuitTable
from switchgear.follower.view import UnreadableCircuitError, decode_view
from switchgear_schemas.circuit import Cause, Circuit, Counts, Lease
from tests.support.table import table

AT = datetime(2026, 11, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def record(tool: str = "search", **changes) -> bytes:
    fields = {"circuit_id": tool, "tool_name": tool, "state": "closed", "version": 1, "generation": 0, "changed_at": AT}
    return Circuit(**(fields | changes)).to_bytes()


def test_a_circuit_is_read_whole():
    view = decode_view(
        record(
            state="open",
            version=7,
            generation=3,
            open_until=AT,
            attempt=2,
            leases=(Lease(lease_id="l", emitter_id="me", expires_at=AT),),
            cause=Cause(rule="failure_rate", value=0.62, threshold=0.5, sample=40),
            counts=Counts(calls=40, failed=25),
            last_error="TimeoutError: x",
            fallback=("backup",),
            target="url.host",
            overdue_after_ms=9_000,
        )
    )
    assert (view.circuit_id, view.tool_name, view.state, view.version, view.generation) == (
        "search",
        "search",
        "open",
        7,
        3,
    )
    assert view.open_until == view.changed_at == AT.timestamp()
    assert [(lease.lease_id, lease.emitter_id, lease.expires_at) for lease in view.leases] == [
        ("l", "me", AT.timestamp())
    ]
    assert view.reason == "failure_rate 0.62 reached 0.5 over 40 calls"
    assert (view.last_error, view.fallback, view.attempt) == ("TimeoutError: x", ("backup",), 2)
    assert (view.target, view.overdue_after_ms) == ("url.host", 9_000)


@table(
    ("state", "mode", "passes", "overrides", "forced"),
    [
        ("closed", "enforce", True, False, False),
        ("open", "enforce", False, False, False),
        ("half_open", "enforce", False, False, False),
        ("forced_open", "enforce", False, False, True),
        ("closed", "forced_open", False, False, True),
        ("disabled", "enforce", True, True, False),
        ("metrics_only", "enforce", True, True, False),
        ("open", "metrics_only", True, True, False),
        ("open", "disabled", True, True, False),
    ],
)
def test_state_and_mode_together_say_whether_calls_pass(state, mode, passes, overrides, forced):
    view = decode_view(record(state=state, mode=mode))
    assert (view.passes, view.overrides, view.forced) == (passes, overrides, forced)


@table(
    ("cause", "words"),
    [
        (None, ""),
        (Cause(rule="command", actor="ann", reason="maintenance"), "command by ann: maintenance"),
        (Cause(rule="command", actor="ann"), "command by ann"),
        (Cause(rule="probe_failed"), "probe_failed"),
        (Cause(rule="x", reason="in words"), "in words"),
        (Cause(rule="cusum", value=12.5), "cusum 12.5"),
    ],
)
def test_the_cause_is_explained_in_a_sentence(cause, words):
    assert decode_view(record(cause=cause)).reason == words


@table(
    "value",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"circuit_id":"a"}',
        record().replace(b"closed", b"ajar"),
        b"\xff",
        record().replace(b'"version":1', b'"version":0'),
    ],
)
def test_refuses_bytes_that_are_not_a_circuit(value):
    with pytest.raises(UnreadableCircuitError, match="not a circuit record"):
        decode_view(value)


def test_unknown_fields_are_accepted():
    assert decode_view(record()[:-1] + b',"colour":"blue"}').tool_name == "search"


def test_the_highest_version_wins_in_every_order():
    values = [record(version=version, generation=version) for version in (1, 2, 3)]
    for order in itertools.permutations(values):
        table = CircuitTable()
        for value in order:
            table.apply(b"search", value)
        assert table.views["search"].version == 3


def test_a_lower_or_equal_version_changes_nothing():
    table = CircuitTable()
    assert table.apply(b"search", record(version=5, state="open")) is not None
    assert table.apply(b"search", record(version=5, state="closed")) is None
    assert table.apply(b"search", record(version=4, state="closed")) is None
    assert table.views["search"].state == "open"


def test_a_record_without_a_value_removes_its_circuit():
    table = CircuitTable()
    table.apply(b"search", record())
    table.apply(b"search", None)
    table.apply(b"never", None)
    table.apply(None, None)
    assert table.views == {}


def test_a_record_that_can_not_be_read_is_counted_and_skipped():
    table = CircuitTable()
    table.apply(b"search", b"junk")
    table.apply(b"search", record())
    assert table.malformed == 1
    assert "not a circuit record" in (table.last_malformed or "")
    assert "search" in table.views


def test_knows_the_tools_that_have_circuits_of_users_or_sessions():
    table = CircuitTable()
    table.apply(b"x", record())
    assert table.scoped == set()
    table.apply(b"x", record(circuit_id="search|user=u1", scope="user", state="open"))
    assert table.scoped == {"search"}
    assert set(table.views) == {"search", "search|user=u1"}


def test_a_topic_created_again_replaces_all_circuits_even_with_lower_versions():
    old, new = CircuitTable(), CircuitTable()
    old.apply(b"a", record("a", version=9, state="open"))
    old.apply(b"b", record("b", version=9, state="open"))
    views = old.views
    new.apply(b"a", record("a", version=1))
    old.replace(new)
    assert old.views is views
    assert set(views) == {"a"}
    assert views["a"].version == 1


def test_a_snapshot_does_not_change_with_the_table():
    table = CircuitTable()
    table.apply(b"a", record("a"))
    snapshot = table.snapshot()
    table.apply(b"a", None)
    assert set(snapshot) == {"a"}


def test_any_shuffled_repeated_log_gives_the_same_table():
    source = random.Random(7)
    log = [(tool, version) for tool in ("a", "b", "c") for version in range(1, 30)]
    for _ in range(20):
        shuffled = log + source.sample(log, 20)
        source.shuffle(shuffled)
        table = CircuitTable()
        for tool, version in shuffled:
            table.apply(tool.encode(), record(tool, version=version))
        assert {tool: view.version for tool, view in table.views.items()} == {"a": 29, "b": 29, "c": 29}


def test_a_familys_record_is_a_view_of_its_own_and_its_tools_are_not_taken_for_those_of_users():
    table = CircuitTable()
    view = table.apply(
        b"mcp:github|family",
        record("mcp:github", circuit_id="mcp:github|family", scope="family", family="mcp:github"),
    )
    assert view is not None
    assert (view.circuit_id, view.scope, view.family) == ("mcp:github|family", "family", "mcp:github")
    assert table.scoped == set()
    assert table.malformed == 0
