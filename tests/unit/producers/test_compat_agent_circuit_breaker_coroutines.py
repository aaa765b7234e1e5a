"""AgentCircuitBreaker counts coroutines and futures when they end."""

from __future__ import annotations

import asyncio

import pytest

from switchgear.compat import AgentCircuitBreaker
from switchgear.guard.rejections import CircuitOpenError

now = [0.0]


class DownError(Exception):
    pass


def fail(breaker, times=1):
    def down():
        raise DownError

    for _ in range(times):
        with pytest.raises(DownError):
            breaker.call(down)


@pytest.fixture
def breaker():
    now[0] = 1_000.0
    return AgentCircuitBreaker(failure_threshold=3, cooldown_seconds=60, clock=lambda: now[0])


async def adown():
    await asyncio.sleep(0)
    raise DownError


async def test_counts_a_coroutine_when_it_ends(breaker):
    async def up(value):
        await asyncio.sleep(0)
        return value

    assert await breaker.call(up, 5) == 5
    for _ in range(3):
        with pytest.raises(DownError):
            await breaker.acall(adown)
    with pytest.raises(CircuitOpenError, match="tool disabled for 60s"):
        await breaker.call(up, 5)


async def test_counts_a_coroutine_that_a_plain_function_returns(breaker):
    def plain():
        return adown()

    for _ in range(3):
        with pytest.raises(DownError):
            await breaker.call(plain)
    assert breaker.state == "open"


async def test_acall_takes_a_plain_function(breaker):
    for _ in range(5):
        assert await breaker.acall(lambda: 5) == 5
    assert breaker.failure_count == 0
    for _ in range(3):
        with pytest.raises(ValueError, match="invalid literal"):
            await breaker.acall(int, "x")
    with pytest.raises(CircuitOpenError):
        await breaker.acall(lambda: 5)
    now[0] += 60
    assert await breaker.acall(lambda: 5) == 5
    assert breaker.state == "closed"


async def test_ignores_a_cancelled_call(breaker):
    for _ in range(5):
        task = asyncio.create_task(breaker.acall(asyncio.sleep, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (breaker.state, breaker.failure_count) == ("closed", 0)


async def test_exactly_one_of_many_tasks_probes(breaker):
    fail(breaker, 3)
    now[0] += 60
    probes = 0

    async def probe():
        nonlocal probes
        probes += 1
        await asyncio.sleep(0.01)

    found = await asyncio.gather(*(breaker.acall(probe) for _ in range(50)), return_exceptions=True)
    assert probes == 1
    assert sum(isinstance(one, CircuitOpenError) for one in found) == 49


async def test_refused_coroutine_function_is_not_called(breaker):
    fail(breaker, 3)
    with pytest.raises(CircuitOpenError):  # pytest makes an error of "was never awaited"
        await breaker.call(adown)
