"""A guard takes its share of a tool's rate limit in memory, and calls over it wait for their turn or are refused with a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from typing import Any

import pytest

from switchgear import CircuitOpenError, Switchgear
from switchgear.classify import Classification
from switchgear.classify.tool_failure import is_refusal
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_schemas import FLEET_DEFAULT, BreakerPolicy
from tests.support.beats import beats_during

LIMITED = Classification("rate_limited")


def policy(**values: Any) -> BreakerPolicy:
    return FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_wait_s": 0, **values})


def offer(fleet: InMemoryFleet, rates: dict[Switchgear, float], seconds: float, step: float = 0.02) -> Counter[int]:
    """Let each client ask for so many calls a second. Return the calls made, by second."""
    made: Counter[int] = Counter()
    owed = dict.fromkeys(rates, 0.0)
    for number in range(round(seconds / step)):
        fleet.advance(step)
        for gear, rate in rates.items():
            owed[gear] += rate * step
            while owed[gear] >= 1:
                owed[gear] -= 1
                answer = gear.try_acquire("search")
                if answer:
                    answer.success()
                    made[int(number * step)] += 1
    return made


@pytest.mark.slow
def test_all_clients_together_keep_a_stated_rate():
    fleet = InMemoryFleet(policy(pace_limit="100/10s"))
    gears = [fleet.gear() for _ in range(5)]
    offer(fleet, dict.fromkeys(gears, 10.0), 10)
    made = offer(fleet, dict.fromkeys(gears, 10.0), 20)
    assert all(80 <= sum(made[second + each] for each in range(10)) <= 110 for second in range(11))


def test_what_others_do_not_use_comes_back_within_a_window():
    fleet = InMemoryFleet(policy(pace_limit="100/10s"))
    one, other = fleet.gear(), fleet.gear()
    offer(fleet, {one: 20, other: 20}, 15)
    offer(fleet, {one: 20}, 7)
    made = offer(fleet, {one: 20}, 10)
    assert sum(made.values()) >= 90


@pytest.mark.slow
def test_a_newcomer_gets_its_part_within_seconds():
    fleet = InMemoryFleet(policy(pace_limit="100/10s"))
    one, other = fleet.gear(), fleet.gear()
    offer(fleet, {one: 40}, 15)
    offer(fleet, {one: 40, other: 40}, 7)
    for gear in (one, other):
        assert fleet_rate(gear) == pytest.approx(5, rel=0.15)


def fleet_rate(gear: Switchgear) -> float:
    fleet = gear._decision.fleet
    assert fleet is not None
    bucket = fleet.turns.paces["search"][""].bucket
    assert bucket is not None
    return bucket.rate


def test_a_refusal_says_when_in_words_for_the_model():
    fleet = InMemoryFleet(policy(pace_limit="1/min"))
    gear = fleet.gear()
    refusals = [answer for answer in (ended(gear) for _ in range(3)) if not answer]
    refusal = refusals[-1]
    assert (refusal.source, refusal.state) == ("pace", "closed")
    assert refusal.retry_after_s == pytest.approx(60, rel=0.05)
    assert (
        refusal.text
        == "The tool search was not called: its rate limit is used up. Do not call it within the next 60 s."
    )
    assert is_refusal(refusal.text)
    assert "1 calls per 60 s, shared by 1 processes" in refusal.error().message


def ended(gear: Switchgear, tool: str = "search") -> Any:
    answer = gear.try_acquire(tool)
    if answer:
        answer.success()
    return answer


def test_learn_refuses_nothing_and_shows_the_rate():
    fleet = InMemoryFleet(policy(pace="learn", pace_limit="1/min"))
    gear = fleet.gear()
    assert all(ended(gear) for _ in range(50))
    shown = fleet.circuits()["search"]
    assert shown.admitted_rate == pytest.approx(1 / 60)
    assert shown.pace is not None
    assert shown.pace.mode == "learn"


def test_off_shows_nothing():
    fleet = InMemoryFleet(policy(pace="off", pace_limit="1/min"))
    gear = fleet.gear()
    assert all(ended(gear) for _ in range(50))
    assert "search" not in fleet.circuits()


@pytest.mark.slow
def test_429s_of_a_paced_tool_open_no_circuit_and_teach_the_rate():
    fleet = InMemoryFleet(policy())
    gear = fleet.gear()
    tokens = 0.0
    for _ in range(1_000):
        fleet.advance(0.04)
        tokens = min(5, tokens + 0.2)
        answer = gear.try_acquire("search")
        if not answer:
            assert answer.source == "pace"
        elif tokens >= 1:
            tokens -= 1
            answer.success()
        else:
            answer.failure("too many", classification=LIMITED)
    assert fleet.state("search") == "closed"
    assert fleet.circuits()["search"].admitted_rate == pytest.approx(5, rel=0.15)


@pytest.mark.slow
def test_each_credential_has_a_limit_of_its_own_from_its_first_429_on():
    fleet = InMemoryFleet(policy())
    gears = [fleet.gear(parameters_key=b"0123456789abcdef") for _ in range(2)]
    tokens = {"small": 0.0, "large": 0.0}
    made = dict.fromkeys(tokens, 0)
    for step in range(1_500):
        fleet.advance(0.04)
        for credential, rate in (("small", 5.0), ("large", 10.0)):
            tokens[credential] = min(5, tokens[credential] + rate * 0.04)
            answer = gears[step % 2].try_acquire("search", credential=credential)
            if not answer:
                continue
            if tokens[credential] >= 1:
                tokens[credential] -= 1
                made[credential] += step >= 750
                answer.success()
            else:
                answer.failure("too many", classification=LIMITED)
    limits = {round(each.rate) for each in fleet.circuits()["search"].pace.limits}
    assert limits <= {4, 5, 6, 8, 9, 10, 11}
    assert len(limits) == 2
    assert made["small"] >= 100
    assert made["large"] >= 200


def test_a_tool_that_asks_to_wait_is_not_called_until_then():
    fleet = InMemoryFleet(policy(pace_limit="10/s"))
    gears = [fleet.gear() for _ in range(2)]
    gears[0].try_acquire("search").failure("too many", classification=Classification("rate_limited", 30.0))
    fleet.advance(1.5)
    gears[0].try_acquire("search")
    ended(gears[1], "search")
    refusal = gears[1].try_acquire("search")
    assert not refusal
    assert refusal.retry_after_s == pytest.approx(28.5, abs=1)
    fleet.advance(29)
    assert ended(gears[1])


def test_a_fallback_serves_a_call_that_is_over_the_limit():
    fleet = InMemoryFleet(lambda tool: policy(pace_limit="1/min") if tool == "search" else FLEET_DEFAULT)
    gear = fleet.gear(fallbacks={"search": ["archive"]})
    search = gear.guard("search")(lambda: "new")
    gear.guard("archive")(lambda: "old")
    found = [search() for _ in range(4)]
    assert found[-1] == "old"


def test_a_call_over_the_limit_is_not_made_although_all_fallbacks_are_down():
    fleet = InMemoryFleet(lambda tool: policy(pace_limit="1/min") if tool == "search" else FLEET_DEFAULT)
    gear = fleet.gear(fallbacks={"search": ["archive"]})
    made: list[int] = []
    search = gear.guard("search")(lambda: made.append(1))
    gear.guard("archive")(lambda: "old")
    fleet.open_circuit("archive")
    for _ in range(5):
        with contextlib.suppress(CircuitOpenError):
            search()
    assert len(made) == 2  # one before the limit was known, and one at once


def test_a_call_that_is_not_made_leaves_its_turn_to_the_next():
    fleet = InMemoryFleet(policy(pace_limit="1/min"))
    gear = fleet.gear()
    ended(gear)
    fleet.advance(61)
    for _ in range(5):
        answer = gear.try_acquire("search")
        assert answer
        answer.release()
    assert ended(gear)
    assert not ended(gear)


def test_an_event_says_how_many_calls_were_asked_for():
    fleet = InMemoryFleet(policy(pace_limit="1/min"))
    gear = fleet.gear()
    for _ in range(20):
        ended(gear)
        fleet.advance(0.3)
    fleet.advance(2)
    said = sum(event.get("metadata", {}).get("asked", event["status"] == "success") for event in fleet.events("search"))
    assert said == 20


class RealClock(FakeClock):
    """A clock that nobody moves."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


def real_fleet(limit: str, wait_s: float) -> tuple[InMemoryFleet, Switchgear]:
    """Return a fleet in which time passes, with a client that knows the limit of its tool."""
    fleet = InMemoryFleet(policy(pace_limit=limit, pace_wait_s=wait_s), clock=RealClock())
    gear = fleet.gear()
    ended(gear)
    return fleet, gear


@pytest.mark.slow
def test_a_call_waits_for_its_turn():
    _, gear = real_fleet("10/s", 5)
    search = gear.guard("search")(lambda: 1)
    began = time.monotonic()
    for _ in range(6):
        search()
    assert 0.3 <= time.monotonic() - began <= 2


@pytest.mark.slow
def test_a_coroutine_waits_for_its_turn_without_blocking_the_loop():
    fleet, gear = real_fleet("10/s", 5)

    async def run() -> tuple[int, list[int]]:
        @gear.guard("search")
        async def search() -> int:
            return 1

        calls = asyncio.gather(*(search() for _ in range(6)))
        return await beats_during(calls), calls.result()

    beats, found = asyncio.run(run())
    assert found == [1] * 6
    assert beats >= 200
    assert any(event.get("metadata", {}).get("waited_ms", 0) > 100 for event in fleet.events("search"))


@pytest.mark.slow
def test_a_call_that_would_wait_too_long_is_refused_at_once():
    _, gear = real_fleet("1/min", 2)
    for _ in range(3):
        gear.try_acquire("search")
    began = time.monotonic()
    with pytest.raises(CircuitOpenError, match="rate limit is used up"):
        gear.guard("search")(lambda: 1)()
    assert time.monotonic() - began < 3


@pytest.mark.slow
def test_a_cancelled_wait_leaves_its_turn_to_the_others():
    _, gear = real_fleet("2/s", 5)

    async def run() -> float:
        for _ in range(2):
            await gear.atry_acquire("search")
        waiting = [asyncio.create_task(gear.atry_acquire("search")) for _ in range(4)]
        await asyncio.sleep(0.05)
        for each in waiting[:3]:
            each.cancel()
        began = time.monotonic()
        assert await waiting[3]
        return time.monotonic() - began

    assert asyncio.run(run()) < 1.2


@pytest.mark.slow
def test_threads_that_wait_go_one_after_the_other():
    _, gear = real_fleet("20/s", 5)
    gone: list[float] = []

    def call() -> None:
        gear.guard("search")(lambda: gone.append(time.monotonic()))()

    threads = [threading.Thread(target=call) for _ in range(10)]
    began = time.monotonic()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(gone) == 10
    assert max(gone) - began >= 0.3


def test_a_call_whose_turn_comes_within_a_microsecond_leaves_the_queue():
    fleet = InMemoryFleet(policy(pace_limit="10/s"))
    gear = fleet.gear()
    ended(gear)
    for _ in range(200):
        fleet.advance(0.1 - 1e-8)
        ended(gear)
    assert gear.status().paces["search"].waiting == 0
