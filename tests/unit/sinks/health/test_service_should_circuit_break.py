"""should_circuit_break and the fleet's breaker: the same answer on the same calls."""

import asyncio
import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest

from switchgear.breaker import Breaker, Result, result_kind
from switchgear_schemas.policy import BreakerPolicy
from switchgear_sinks.health import ToolHealthService
from tests.support.engine import call, store_calls

POLICY = BreakerPolicy(failure_count=5, sliding_window_size=300)
PANE_S = 300 / 20
CLASSES = (
    None,
    "transport",
    "timeout",
    "server",
    "rate_limited",
    "tool",
    "invalid_input",
    "auth",
    "cancelled",
    "policy",
)
STATUSES = ("success", "error", "timeout", "cancelled", "rejected")
START = 1_000_000_000.0


def history(seed: int) -> list[tuple[float, str, str | None]]:
    """Time, status and class of calls over a quarter of an hour; failures come in bursts."""
    chance = random.Random(seed)
    failing = chance.uniform(0, 0.9)
    found = []
    for at in sorted(START + chance.uniform(0, 900) for _ in range(chance.randrange(1, 60))):
        status = chance.choice(STATUSES[1:]) if chance.random() < failing else "success"
        found.append((at, status, chance.choice(CLASSES) if status in {"error", "timeout", "cancelled"} else None))
    return found


def until_it_opens(events) -> tuple[list[tuple[float, str, str | None]], bool]:
    """The calls that a breaker takes in until it opens, and whether it does."""
    breaker = Breaker("t", POLICY, START)
    for place, (at, status, kind) in enumerate(events):
        if status != "rejected":
            breaker.record_event(at, Result(result_kind(status, kind, POLICY)), generation=None, lease_id=None)
        if breaker.state != "closed":
            return list(events[: place + 1]), True
    return list(events), False


def on_the_edge(events) -> bool:
    """A failure lies in what the breaker's oldest pane and the exact window see differently."""
    end = events[-1][0]
    return any(end - 300 - 1 <= at <= end - 300 + PANE_S + 1 for at, status, _ in events if status != "success")


@pytest.mark.deep
async def test_should_circuit_break_agrees_with_a_breaker_of_five_failures_in_five_minutes(store):
    now, expected, calls = datetime.now(UTC), {}, []
    for seed in range(600):
        events, opened = until_it_opens(history(seed))
        if on_the_edge(events):
            continue
        name = f"tool-{seed}"
        expected[name] = opened
        end = events[-1][0]
        # the last call ended a moment ago: the test itself takes seconds, which the window of the answer moves on by
        calls += [
            call(name, status, now - timedelta(seconds=end - at), **({"error_class": kind} if kind else {}))
            for at, status, kind in events
        ]
    await store_calls(store, calls)
    service = ToolHealthService(store)
    asked = await asyncio.gather(*(service.should_circuit_break(name, window_minutes=5) for name in expected))
    answers = dict(zip(expected, asked, strict=True))
    moved_on = (datetime.now(UTC) - now).total_seconds()
    assert moved_on < 60
    disputed = {name for name in expected if answers[name] is not expected[name]}
    assert {name for name in disputed if not _moves_out(calls, name, now, moved_on)} == set()
    assert sum(expected.values()) > 40
    assert sum(not opened for opened in expected.values()) > 40
    assert len(disputed) < 10


def _moves_out(calls, name, now, moved_on) -> bool:
    """A call left the window while the test asked."""
    edge = now - timedelta(seconds=300)
    return any(
        each["tool_name"] == name
        and edge - timedelta(seconds=1) <= datetime.fromisoformat(each["recorded_at"]) <= edge + timedelta(seconds=moved_on)
        for each in calls
    )  # fmt: skip


async def test_should_circuit_break_counts_the_classes_that_the_breaker_counts(store):
    expected, calls = {}, []
    for status, kind in itertools.product(STATUSES, CLASSES):
        failed = status in {"error", "timeout", "cancelled"}
        fields = {"error_class": kind} if kind and failed else {}
        name = f"{status}-{kind}"
        calls += [call(name, status, **fields) for _ in range(5)]
        _, expected[name] = until_it_opens([(START, status, kind if failed else None)] * 5)
    await store_calls(store, calls)
    service = ToolHealthService(store)
    assert {name: await service.should_circuit_break(name) for name in expected} == expected
    assert set(expected.values()) == {True, False}
