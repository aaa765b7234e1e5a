"""Reports of a permit: their arguments are checked before they count."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from switchgear import (
    BreakerPolicy,
    CircuitOpenError,
    Classification,
    FunctionHooks,
    Permit,
    Switchgear,
    SwitchgearError,
)
from switchgear.testing import InMemoryFleet
from tests.support.table import table

ONCE = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.001)
NUMBERS = ("input_tokens", "output_tokens", "cache_creation_tokens", "cost_usd")
WRONG = (-500, "3", float("nan"), float("inf"), True, [1])


@pytest.fixture(params=["alone", "in a session"])
def gear(request):
    gear = Switchgear.local(local_policies=ONCE)
    if request.param == "alone":
        yield gear
    else:
        with gear.session("s-1"):
            yield gear


async def half_open(gear):
    gear.try_acquire("t").failure(ConnectionError("down"))
    await asyncio.sleep(0.002)
    permit = gear.try_acquire("t")
    assert permit.probe
    return permit


IGNORED = [
    ((5,), {}, "A failure is an exception or a message"),
    ((ConnectionError,), {}, "A failure is an exception or a message"),
    ((), {"output_tokens": "3"}, "output_tokens"),
    ((), {"output_size": -3}, "output_size"),
    ((), {"metadata": 5}, "metadata"),
    (("x",), {"metadata": 5}, "metadata"),
]


def reports():
    yield from (("ignore", *each) for each in IGNORED)
    for name in NUMBERS:
        for wrong in WRONG:
            yield "success", (), {name: wrong}, name
            yield "failure", ("x",), {name: wrong}, name
    for wrong in (-1, "3", float("nan")):
        yield "success", (), {"output_size": wrong}, "output_size"
    for wrong in (*WRONG, -0.001, float("-inf"), timedelta(seconds=1)):
        for ending in ("success", "failure", "ignore"):
            yield ending, ("x",) if ending == "failure" else (), {"duration_ms": wrong}, "duration_ms"
    for ending in ("success", "failure"):
        yield ending, () if ending == "success" else ("x",), {"metadata": 5}, "metadata"
    for error in (None, ConnectionError, 5):
        yield "failure", (error,), {}, "A failure is an exception or a message"
    for verdict in ("bogus", True, 5, Classification("bogus"), Classification("server", "30")):
        yield "failure", ("x",), {"classification": verdict}, "classification"


@pytest.mark.slow
@table(("report", "args", "kwargs", "named"), reports())
async def test_report_with_an_invalid_argument_names_it_and_leaves_the_permit_usable(gear, report, args, kwargs, named):
    permit = await half_open(gear)
    with pytest.raises(SwitchgearError, match=named):
        getattr(permit, report)(*args, **kwargs)
    permit.success()
    assert not gear.is_open("t"), "the probe's place was freed"


async def test_tokens_given_as_none_count_as_zero(gear):
    permit = await half_open(gear)
    permit.success(input_tokens=None, output_tokens=None, cache_creation_tokens=None, cost_usd=None, output_size=None)
    assert not gear.is_open("t")


def test_failure_takes_an_error_class_as_its_classification(gear):
    gear.try_acquire("t").failure("no such city", classification="invalid_input")
    assert not gear.try_acquire("t").probe
    gear.try_acquire("t").failure("it is down", classification="server")
    answer = gear.try_acquire("t")
    assert not answer or answer.probe, "the circuit is open, or half-open after its millisecond"


def test_invalid_token_counts_leave_the_session_budget_unchanged():
    gear = Switchgear.local()
    with gear.session("s-1", token_budget=100) as session:
        permit = gear.try_acquire("t")
        with pytest.raises(SwitchgearError, match="output_tokens"):
            permit.success(output_tokens=-500)
        permit.failure(ConnectionError(), output_tokens=1.5)
    assert (session.status().tokens, session.status().failures) == (2, 1)


def test_an_invalid_report_in_a_permit_block_does_not_count_against_the_tool():
    gear = Switchgear.local(local_policies=ONCE)
    with pytest.raises(SwitchgearError, match="output_tokens"), gear.permit("t") as permit:
        permit.success(output_tokens=-1)
    assert not gear.is_open("t")


def test_events_carry_fractional_token_counts_rounded_up():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    with gear.permit("t") as permit:
        permit.success(output_tokens=1.5, output_size=2.5)
    gear.flush()
    (event,) = fleet.events()
    assert (event["output_tokens"], event["output_size"]) == (2, 3)


def test_leaving_a_permit_block_that_was_never_entered_reports_nothing(gear):
    gear.permit("t").__exit__(None, None, None)
    assert not gear.is_open("t")


async def test_a_permit_block_cant_be_entered_twice_at_once(gear):
    block = gear.permit("t")
    with block as first:
        with pytest.raises(SwitchgearError, match="This permit for t is in use"), block:
            pass
        with pytest.raises(SwitchgearError, match="in use"):
            async with block:
                pass
    async with block as second:
        assert second is not first


@pytest.mark.parametrize(("given", "sent"), [(42, "42"), (UUID(int=7), str(UUID(int=7))), ("s-1", "s-1"), (None, None)])
def test_ids_reach_the_fleet_as_text(given, sent):
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    ids = {"user_id": given, "session_id": given, "request_id": given}
    with gear.permit("t", **ids):
        pass
    gear.try_acquire("t", **ids).failure(ConnectionError())
    fleet.open_circuit("t")
    assert not gear.try_acquire("t", **ids)
    gear.flush()
    events = fleet.events()
    assert [event["status"] for event in events] == ["success", "error", "rejected"]
    for event in events:
        assert [event.get(name) for name in ids] == [sent] * 3


def test_a_users_circuit_is_one_whether_the_id_is_a_number_or_text():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1, scope="user"))
    gear.try_acquire("t", user_id=42).failure(ConnectionError())
    assert not gear.try_acquire("t", user_id="42")
    assert gear.try_acquire("t", user_id="43")


# -- durations that were measured elsewhere ---------------------------------------------------------------------------


def ended(permit, ending, duration_ms):
    if ending == "failure":
        permit.failure("no such city", duration_ms=duration_ms)
    else:
        getattr(permit, ending)(duration_ms=duration_ms)


@table("ending", ["success", "failure", "ignore"])
@table("metered", [False, True])
def test_a_reported_duration_is_sent_and_passed_to_the_hooks(ending, metered):
    outcomes, fleet = [], InMemoryFleet()
    gear = fleet.gear("gateway", hooks=[FunctionHooks(on_outcome=outcomes.append)])
    given = [0, 0.25, 1_234.5, Decimal("7.5"), None]
    for duration_ms in given:
        permit = gear.try_acquire("t")
        if metered:
            permit.tokens(1)
        fleet.advance(2)
        permit.paused(0.5)
        ended(permit, ending, duration_ms)
    assert [one["execution_time_ms"] for one in fleet.events("t")] == [0, 0.25, 1_234.5, 7.5, 1_500]
    assert [one.duration_ms for one in outcomes] == [0, 0.25, 1_234.5, 7.5, 1_500]


@pytest.mark.parametrize("ending", ["success", "failure"])
@pytest.mark.parametrize("where", ["alone", "in a session"])
def test_a_call_that_was_slow_elsewhere_is_slow_here_and_in_the_fleet(ending, where):
    slow = BreakerPolicy(
        slow_call_duration_threshold_ms=1_000,
        slow_call_rate_threshold=0.5,
        minimum_number_of_calls=2,
        counted_error_classes={"server"},
    )
    fleet = InMemoryFleet(slow)
    gear = fleet.gear("gateway", local_policies=slow)
    with (
        gear.session("s-1", policies=slow, max_caller_errors=None) if where == "in a session" else gear.permit("other")
    ):
        for duration_ms in (1_000, 1_000):
            ended(gear.try_acquire("t"), ending, duration_ms)
        assert (gear.is_open("t"), fleet.state("t")) == (False, "closed")
        for duration_ms in (1_000.5, 1_000.5):
            ended(gear.try_acquire("t"), ending, duration_ms)
        assert (gear.is_open("t"), fleet.state("t")) == (True, "open")


@table(
    ("error", "status", "error_class"),
    [
        (asyncio.CancelledError(), "cancelled", "cancelled"),
        (KeyboardInterrupt(), "cancelled", "cancelled"),
        (GeneratorExit(), "cancelled", "cancelled"),
        (TimeoutError(), "timeout", "timeout"),
        (ValueError("no such city"), "error", "invalid_input"),
        (ConnectionError(), "error", "transport"),
    ],
)
@table("reported", ["by a with block", "by failure"])
def test_an_event_has_the_status_of_how_the_call_ended(reported, error, status, error_class):
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    if reported == "by failure":
        gear.try_acquire("t").failure(error)
    else:
        with pytest.raises(type(error)), gear.permit("t"):
            raise error
    (event,) = fleet.events("t")
    assert (event["status"], event["error_class"]) == (status, error_class)


@pytest.mark.parametrize(
    ("report", "unknown"), [("success", "tokens"), ("failure", "output_size"), ("ignore", "reason")]
)
def test_report_with_an_unknown_keyword_names_it_and_leaves_the_permit_usable(report, unknown):
    permit = Switchgear.local().try_acquire("t")
    arguments = ("broken",) if report == "failure" else ()
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'"):
        getattr(permit, report)(*arguments, **{unknown: 1})
    assert not permit.reported


def test_nobody_assigns_a_field_of_a_permit_but_the_permit_itself(monkeypatch):
    assigned: set[tuple[str, str]] = set()
    assign = Permit.__setattr__

    def seen(permit, name, value):
        assigned.add((Path(sys._getframe(1).f_code.co_filename).name, name))
        assign(permit, name, value)

    monkeypatch.setattr(Permit, "__setattr__", seen)
    fleet = InMemoryFleet()
    gear = fleet.gear(
        "p",
        local_policies=BreakerPolicy(consecutive_failures=1, slow_call_rate_threshold=0.5),
        parameters_key=b"a secret of the fleet",
        max_caller_errors=1,
    )
    gear.guard("mcp:s:spare")(lambda city: city)
    tool = gear.guard("mcp:s:tool", fallback="mcp:s:spare", timeout=5)(lambda city: {"Oslo": 1}[city])
    stream = gear.guard("mcp:s:stream")(lambda: (yield from range(3)))
    with gear.session("s-1", max_calls=20):
        for arguments in (("Oslo",), (), ("Rome",), ("Rome",)):
            with contextlib.suppress(KeyError, TypeError, CircuitOpenError):
                tool(*arguments)
        assert list(stream()) == [0, 1, 2]
        permit = gear.try_acquire("mcp:s:other", arguments={"city": "Oslo"}, fallbacks=["mcp:s:spare"])
        permit.tokens(3)
        permit.success()
        with pytest.raises(ValueError, match="wrong"), gear.permit("mcp:s:more"):
            raise ValueError("wrong")
        gear.try_acquire("mcp:s:last", target="host").release()
    assert {file for file, _ in assigned} == {"permits.py"}
    assert {"wait", "sessions", "served_by", "parameters_hash", "trial", "reported"} <= {name for _, name in assigned}
