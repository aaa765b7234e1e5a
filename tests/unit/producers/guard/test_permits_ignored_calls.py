"""Calls that say nothing about the tool's health: their events are sent, and no circuit counts them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from switchgear import (
    IGNORE,
    BreakerPolicy,
    CachePolicy,
    CallOutcome,
    Classification,
    FunctionHooks,
    GuardOptions,
    Permit,
    SpectraOptions,
    Switchgear,
    classify_result,
    from_spectra,
)
from switchgear.testing import FakeClock, InMemoryFleet

TOOL = "t"
TWO = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)
WRONG = {"content": [{"type": "text", "text": "the demo data are frozen"}], "isError": True}


class MaintenanceError(ConnectionError):
    """Announced: by its kind it would count."""


def in_maintenance() -> str:
    raise MaintenanceError("closed until noon")


def rule(error: BaseException) -> Classification | None:
    return IGNORE if isinstance(error, MaintenanceError) else None


@pytest.fixture
def outcomes() -> list[CallOutcome]:
    return []


@pytest.fixture
def fleet() -> InMemoryFleet:
    return InMemoryFleet(TWO)


@pytest.fixture
def gear(fleet: InMemoryFleet, outcomes: list[CallOutcome]) -> Switchgear:
    return fleet.gear("planner", local_policies=TWO, hooks=[FunctionHooks(on_outcome=outcomes.append)])


def taken(gear: Switchgear) -> Permit:
    permit = gear.try_acquire(TOOL)
    assert permit
    return permit


def counted(gear: Switchgear) -> tuple[int, int, int]:
    """Calls, failed and ignored ones of the process's own circuit."""
    counts = gear._decision.local.circuits[TOOL].breaker.counts(gear._runtime.clock())
    return counts.calls, counts.failed, counts.ignored


def of_the_fleet(fleet: InMemoryFleet) -> tuple[int, int, int]:
    """The same of the fleet's circuit, as its worker has it."""
    live = fleet._worker.fold.registry.tool(TOOL, fleet.clock.wall())
    counts = live.breaker.counts(fleet.clock.wall())
    return counts.calls, counts.failed, counts.ignored


def sent(fleet: InMemoryFleet) -> list[tuple[str, str | None, str | None]]:
    return [(one["status"], one.get("error_class"), one.get("error_message")) for one in fleet.events(TOOL)]


# -- by a rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["client", "guard", "options"])
def test_an_exception_that_a_rule_ignores_counts_nowhere_and_goes_to_the_caller(
    fleet: InMemoryFleet, outcomes: list[CallOutcome], whose: str
) -> None:
    asked: dict[str, Any] = {
        "client": {"classify": rule},
        "guard": {},
        "options": {"defaults": GuardOptions(classify=rule)},
    }[whose]
    gear = fleet.gear("planner", local_policies=TWO, hooks=[FunctionHooks(on_outcome=outcomes.append)], **asked)
    guarded = gear.guard(TOOL, **({"classify": rule} if whose == "guard" else {}))(in_maintenance)
    for _ in range(5):
        with pytest.raises(MaintenanceError, match="closed until noon"):
            guarded()
    assert counted(gear) == (0, 0, 5)
    assert of_the_fleet(fleet) == (0, 0, 5)
    assert fleet.state(TOOL) == "closed"
    assert sent(fleet) == [("error", "policy", "closed until noon")] * 5
    assert [(one.status, one.error_class, one.error_type) for one in outcomes] == [
        ("error", "policy", "MaintenanceError")
    ] * 5


def test_without_the_rule_the_same_calls_open_the_circuit(fleet: InMemoryFleet, gear: Switchgear) -> None:
    guarded = gear.guard(TOOL)(in_maintenance)
    for _ in range(2):
        with pytest.raises(MaintenanceError):
            guarded()
    assert (gear.is_open(TOOL), fleet.state(TOOL)) == (True, "open")


def test_an_ignored_call_neither_ends_nor_lengthens_a_run_of_failures(fleet: InMemoryFleet, gear: Switchgear) -> None:
    taken(gear).failure(ConnectionError("down"))
    taken(gear).ignore(ConnectionError("down"))
    taken(gear).ignore()
    assert not gear.is_open(TOOL)
    taken(gear).failure(ConnectionError("down"))
    assert (gear.is_open(TOOL), fleet.state(TOOL)) == (True, "open")


async def test_an_ignored_exception_of_a_coroutine_or_a_stream_counts_nowhere(
    fleet: InMemoryFleet, gear: Switchgear
) -> None:
    async def fetch() -> str:
        await asyncio.sleep(0)
        return in_maintenance()

    async def stream() -> Any:
        yield "half of it"
        in_maintenance()

    for function in (fetch, stream):
        guarded: Any = gear.guard(TOOL, classify=rule)(function)
        for _ in range(3):
            with pytest.raises(MaintenanceError):
                _ = [item async for item in guarded()] if function is stream else await guarded()
    assert counted(gear) == (0, 0, 6)
    assert of_the_fleet(fleet) == (0, 0, 6)


def test_an_ignored_exception_is_not_replaced_by_a_fallback_or_a_cached_result(gear: Switchgear) -> None:
    gear.guard("backup")(lambda: "from the backup")
    answers = iter(["fresh"])

    def forecast() -> str:
        return next(answers, None) or in_maintenance()

    guarded = gear.guard(
        TOOL, fallback="backup", classify=rule, cache=CachePolicy(ttl_s=0, stale_for_s=60), parameters=lambda: ()
    )(forecast)
    assert guarded() == "fresh"
    with pytest.raises(MaintenanceError):
        guarded()


@pytest.mark.parametrize(
    ("result", "event"),
    [
        ({"dry_run": True}, ("success", "policy", None)),
        ("dry run", ("success", "policy", None)),
        (None, ("success", "policy", None)),
        (WRONG, ("error", "policy", "the demo data are frozen")),
    ],
)
async def test_a_result_that_a_rule_ignores_goes_to_the_caller_and_counts_nowhere(
    fleet: InMemoryFleet, gear: Switchgear, outcomes: list[CallOutcome], result: Any, event: tuple[str, str, str | None]
) -> None:
    asked = gear.with_options(classify_result=lambda _result: IGNORE)

    async def fetch() -> Any:
        return result

    assert asked.call(TOOL, lambda: result) is result
    assert await asked.acall(TOOL, fetch) is result
    assert counted(gear) == (0, 0, 2)
    assert of_the_fleet(fleet) == (0, 0, 2)
    assert sent(fleet) == [event] * 2
    assert [(one.status, one.error_class) for one in outcomes] == [event[:2]] * 2


def test_an_ignored_result_is_not_cached(gear: Switchgear) -> None:
    made = []
    guarded = gear.guard(TOOL, cache=CachePolicy(ttl_s=60), classify_result=lambda _result: IGNORE)(
        lambda: made.append(1)
    )
    guarded()
    guarded()
    assert len(made) == 2


def test_a_rule_for_the_texts_of_mcp_may_ignore_a_result() -> None:
    assert classify_result(WRONG, by_text=lambda text: IGNORE if "demo" in text else None) == IGNORE
    limited = Classification("rate_limited", retry_after_s=3)
    assert classify_result(WRONG, by_text=lambda _text: limited) is limited


# -- by the permit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["alone", "in a session", "after tokens"])
@pytest.mark.parametrize(
    ("error", "event"),
    [
        (None, ("success", "policy", None)),
        ("the gateway was restarted", ("error", "policy", "the gateway was restarted")),
        (TimeoutError("slow"), ("error", "policy", "slow")),
    ],
)
def test_a_permit_may_be_ignored(
    fleet: InMemoryFleet, gear: Switchgear, where: str, error: Any, event: tuple[str, str, str | None]
) -> None:
    with gear.session("s-1", max_failures=1, max_calls=10, policies=TWO) as session:
        permit = taken(gear) if where == "in a session" else None
    if permit is None:
        permit = taken(gear)
    if where == "after tokens":
        permit.tokens(5)
    permit.ignore(error, duration_ms=1_500, output_tokens=3, metadata={"gateway": "g-1"})
    permit.failure(ConnectionError("the first report counts"))
    (found,) = fleet.events(TOOL)
    assert (found["status"], found["error_class"], found.get("error_message")) == event
    assert (found["execution_time_ms"], found["metadata"]) == (1_500, {"gateway": "g-1"})
    assert found["output_tokens"] == (8 if where == "after tokens" else 3)
    assert of_the_fleet(fleet) == (0, 0, 1)
    if where == "in a session":
        status = session.status()
        assert (status.calls, status.failures, status.tokens) == (1, 0, 3), "the call was made"
    else:
        assert counted(gear) == (0, 0, 1)


def test_failure_with_the_constant_is_the_same_as_ignore(fleet: InMemoryFleet, gear: Switchgear) -> None:
    taken(gear).failure(ConnectionError("down"), classification=IGNORE)
    taken(gear).ignore(ConnectionError("down"))
    first, second = sent(fleet)
    assert first == second
    assert counted(gear) == (0, 0, 2)


def test_ignoring_a_permit_in_its_block_replaces_the_success(fleet: InMemoryFleet, gear: Switchgear) -> None:
    with gear.permit(TOOL) as permit:
        permit.ignore()
    with contextlib.suppress(KeyError), gear.permit(TOOL) as permit:
        permit.ignore("a dry run")
        raise KeyError
    assert counted(gear) == (0, 0, 2)
    assert [one[1] for one in sent(fleet)] == ["policy", "policy"]


def test_a_released_permit_leaves_no_trace_and_an_ignored_one_leaves_an_event(
    fleet: InMemoryFleet, gear: Switchgear
) -> None:
    taken(gear).release()
    assert (sent(fleet), counted(gear)) == ([], (0, 0, 0))
    taken(gear).ignore()
    assert (len(sent(fleet)), counted(gear)) == (1, (0, 0, 1))


# -- half-open --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ConnectionError("down")])
def test_an_ignored_probe_decides_nothing_and_frees_its_place(error: Exception | None) -> None:
    clock = FakeClock()
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=1_000), clock=clock)
    gear = fleet.gear("planner", local_policies=TWO)
    for _ in range(2):
        taken(gear).failure(ConnectionError("down"))
    fleet.advance(60)
    probe = taken(gear)
    assert probe.probe
    assert not gear.try_acquire(TOOL)
    probe.ignore(error)
    assert gear._decision.local.circuits[TOOL].breaker.state == "half_open"
    after = taken(gear)
    assert after.probe
    after.success()
    assert gear._decision.local.circuits[TOOL].breaker.state == "closed"


@pytest.mark.parametrize("error", [None, ConnectionError("down")])
def test_an_ignored_probe_of_the_fleet_decides_nothing_and_another_process_may_probe(
    fleet: InMemoryFleet, error: Exception | None
) -> None:
    one, other = fleet.gear("one"), fleet.gear("other")
    for _ in range(2):
        taken(one).failure(ConnectionError("down"))
    fleet.advance(60)
    probe = taken(one)
    assert probe.lease_id
    assert not other.try_acquire(TOOL)
    probe.ignore(error)
    fleet.settle()
    assert fleet.state(TOOL) == "half_open"
    fleet.advance(1)
    after = taken(other)
    assert after.lease_id
    after.success()
    fleet.settle()
    assert fleet.state(TOOL) == "closed"


def test_spectras_circuits_which_count_every_failure_leave_an_ignored_one_out() -> None:
    gear = from_spectra(SpectraOptions(failure_threshold=1), classify=rule)
    with pytest.raises(MaintenanceError):
        gear.call(TOOL, in_maintenance)
    assert not gear.is_open(TOOL)
