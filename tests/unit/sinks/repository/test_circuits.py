"""The circuits as they were landed."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_schemas.circuit import Cause, Circuit, Counts, Lease
from switchgear_sinks.repository import CircuitsRepository
from tests.support.engine import store_circuits

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def record(circuit_id, version, state, previous=None, minutes=0, **fields):
    return Circuit(
        circuit_id=circuit_id,
        tool_name=circuit_id.partition("|")[0],
        scope="user" if "|user=" in circuit_id else "tool",
        state=state,
        previous_state=previous,
        version=version,
        generation=version,
        changed_at=NOW + timedelta(minutes=minutes),
        **fields,
    )


@pytest.fixture
def circuits(store) -> CircuitsRepository:
    return CircuitsRepository(store)


async def test_highest_version_is_the_state_of_a_circuit_in_any_order_of_arrival(store, circuits):
    cause = Cause(rule="cusum", value=12.3, threshold=12.0, sample=40, reporters=3)
    lease = Lease(lease_id="l", emitter_id="e", expires_at=NOW)
    opened = record(
        "search", 2, "open", "closed", cause=cause, open_until=NOW + timedelta(minutes=1), attempt=1,
        counts=Counts(calls=40, failed=30), last_error="KeyError: x", fallback=("backup",), leases=(lease,),
    )  # fmt: skip
    await store_circuits(store, [opened, record("search", 1, "closed"), opened])
    (found,) = await circuits.current(NOW)
    assert Circuit.from_dict({**found, "changed_at": found["changed_at"]}) == opened
    assert (found["opens"], found["last_opened_at"], found["last_closed_at"]) == (1, NOW, None)


async def test_a_closed_circuit_does_not_keep_what_it_had_when_open(store, circuits):
    await store_circuits(
        store,
        [
            record("search", 1, "open", "closed", open_until=NOW + timedelta(minutes=1), last_error="x"),
            record("search", 2, "half_open", "open", 1),
            record("search", 3, "closed", "half_open", 2),
        ],
    )
    (found,) = await circuits.current(NOW)
    assert (found["state"], found["open_until"], found["last_error"]) == ("closed", None, None)
    assert (found["last_opened_at"], found["last_closed_at"]) == (NOW, NOW + timedelta(minutes=2))


async def test_opens_since_a_time_are_counted_once_each(store, circuits):
    flapping = []
    for n, hour in enumerate((-30, -25, -23, -2, -1)):
        opened = record("search", 2 * n + 1, "open", "closed", hour * 60)
        flapping += [opened, opened, record("search", 2 * n + 2, "closed", "half_open", hour * 60 + 5)]
    reopened = record("search", 11, "open", "half_open", -30)
    forced = record("search", 12, "forced_open", "open", -20)
    await store_circuits(store, [*flapping, reopened, forced])
    (found,) = await circuits.current(NOW - timedelta(hours=24))
    assert found["opens"] == 4, "three opens and one reopen; forcing an open circuit opens nothing; twice is once"


async def test_circuits_that_refuse_come_first_then_the_latest_change(store, circuits):
    await store_circuits(
        store,
        [
            record("closed-late", 1, "closed", None, 9),
            record("closed-early", 1, "closed", None, 1),
            record("open", 1, "open", "closed", 0),
            record("forced", 1, "forced_open", "closed", 2),
            record("half", 1, "half_open", "open", 5),
        ],
    )
    names = [circuit["circuit_id"] for circuit in await circuits.current(NOW)]
    assert names == ["forced", "open", "closed-late", "half", "closed-early"]
    assert [each["circuit_id"] for each in await circuits.current(NOW, "half")] == ["half"]


async def test_history_is_newest_first_and_has_each_version_once(store, circuits):
    await store_circuits(store, [record("a", n, "open", "closed", n) for n in (1, 2, 3)])
    await store_circuits(store, [record("a", 2, "open", "closed", 2), record("b|user=1", 1, "closed", None, 5)])
    assert [each["version"] for each in await circuits.history("a")] == [3, 2, 1]
    assert [each["circuit_id"] for each in await circuits.history(limit=2)] == ["b|user=1", "a"]
    assert await circuits.history("nobody") == []


async def test_no_circuits_are_an_empty_list(circuits):
    assert await circuits.current(NOW) == []
    assert await circuits.history() == []


async def test_the_steps_of_a_ramp_are_stored_and_are_neither_opens_nor_later_closes(store, circuits):
    shares = (0.1, 0.25, 1.0)
    steps = [
        record("search", 3 + place, "closed", "half_open", 2, admitted_share=share)
        for place, share in enumerate(shares)
    ]
    await store_circuits(store, [record("search", 1, "open", "closed"), *steps])
    (found,) = await circuits.current(NOW)
    assert (found["admitted_share"], found["opens"]) == (1, 1)
    assert found["last_closed_at"] == NOW + timedelta(minutes=2)
    assert [each["admitted_share"] for each in await circuits.history("search")] == [1, 0.25, 0.1, 1]
