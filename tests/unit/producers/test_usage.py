"""A usage is of whole, finite numbers from 0 on, whatever an SDK's own numbers look like."""

from __future__ import annotations

from decimal import Decimal

import pytest

from switchgear import BreakerPolicy, Switchgear, SwitchgearError, Usage
from switchgear.testing import InMemoryFleet
from switchgear.usage import usage_of
from tests.support.table import table

FIELDS = ("input_tokens", "output_tokens", "cache_creation_tokens", "cost_usd")


@table(
    ("reported", "found"),
    [
        (None, Usage()),
        (7, Usage(output_tokens=7)),
        (1.2, Usage(output_tokens=2)),
        (Usage(input_tokens=1.5, output_tokens=3.0, cost_usd=2), Usage(2, 3, 0, 2.0)),
        (Usage(input_tokens=None, output_tokens=5, cost_usd=None), Usage(output_tokens=5)),
        (Usage(output_tokens=Decimal("2.5"), cost_usd=Decimal("0.25")), Usage(output_tokens=3, cost_usd=0.25)),
    ],
)
def test_an_estimate_is_rounded_up_and_an_absent_number_is_nothing(reported, found):
    usage = usage_of(reported)
    assert usage == found
    assert [type(getattr(usage, name)) for name in FIELDS] == [int, int, int, float]


@table("field", FIELDS)
@table("wrong", [-1, -0.5, float("nan"), float("inf"), 2**60, 10**400, "5", b"5", True, [1], object()])
def test_rejects_an_impossible_number_and_names_its_field(field, wrong):
    with pytest.raises(SwitchgearError, match=f"^{field} "):
        usage_of(Usage(**{field: wrong}))


@table(
    ("field", "most"),
    [("input_tokens", 10**9), ("output_tokens", 10**9), ("cache_creation_tokens", 10**9), ("cost_usd", 10**6)],
)
def test_a_usage_may_be_as_large_as_that_of_one_event_and_no_larger(field, most):
    assert getattr(usage_of(Usage(**{field: most})), field) == most
    with pytest.raises(SwitchgearError, match=f"{field} must be a number from 0 to {most:,}"):
        usage_of(Usage(**{field: most + 1}))


def test_a_usage_beyond_the_limit_loses_the_usage_and_not_the_event():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    guarded = gear.guard("t", usage=lambda tokens: Usage(output_tokens=tokens))(lambda tokens: tokens)
    assert guarded(2**62) == 2**62
    guarded(7)
    permit = gear.try_acquire("t")
    permit.tokens(10**9)
    permit.success(output_tokens=10**9)
    gear.flush()
    assert [event.get("output_tokens", 0) for event in fleet.events("t")] == [0, 7, 10**9]
    with pytest.raises(SwitchgearError, match="duration_ms"):
        gear.try_acquire("t").success(duration_ms=1e12)


def test_a_usage_that_is_not_a_number_does_not_disable_the_budget():
    gear = Switchgear.local()
    with gear.session("s-1", token_budget=10) as session:
        guarded = gear.guard("t", usage=lambda tokens: Usage(output_tokens=tokens, cost_usd=tokens))(
            lambda tokens: tokens
        )
        guarded(float("nan"))
        with pytest.raises(SwitchgearError, match="cost_usd"):
            session.spend(Usage(cost_usd=float("nan")))
        assert (guarded(4.5), session.status().tokens, session.status().cost_usd) == (4.5, 5, 4.5)


def test_tokens_of_a_stream_that_fails_count_as_wasted():
    gear = Switchgear.local(local_policies=BreakerPolicy(wasted_tokens=4))

    @gear.guard("t", usage=lambda text: Usage(output_tokens=len(text) / 4))
    def stream():
        yield "seven.."
        yield "seven.."
        raise ConnectionError("broken off")

    with pytest.raises(ConnectionError):
        list(stream())
    assert gear.is_open("t")


def test_failures_with_estimated_tokens_open_the_circuit_of_the_fleet():
    fleet = InMemoryFleet(BreakerPolicy(failure_count=20, sliding_window_size=600))
    for number in range(20):
        gear = fleet.gear(f"p-{number}")
        gear.try_acquire("t").failure(ConnectionError("down"), output_tokens=1.5)
        gear.flush()
    assert fleet.state("t") == "open"
