"""A process that has just begun hears the fleet before its first call, where ``start_wait_s`` says so."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.producers.circuits import circuit, publish
from tests.support.processes import python, settings_environment

FIVE_CALLS = """
from switchgear import CircuitOpenError, Switchgear

gear = Switchgear.from_env({arguments})

@gear.guard("mcp:weather:get_forecast")
def get_forecast(city):
    return "called"

def call():
    try:
        return get_forecast("Oslo")
    except CircuitOpenError as refused:
        return f"refused by the {{refused.source}}"

print(*[call() for _ in range(5)], sep=", ")
gear.close()
"""
TASKS_AT_ONCE = """
import asyncio, time
from switchgear import CircuitOpenError, Switchgear

async def main():
    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.001)

    async def call():
        try:
            return await get_forecast("Oslo")
        except CircuitOpenError as refused:
            return f"refused by the {refused.source}"

    gear = Switchgear.from_env()

    @gear.guard("mcp:weather:get_forecast")
    async def get_forecast(city):
        return "called"

    ticks = []
    ticker = asyncio.create_task(tick())
    began = time.monotonic()
    print(*await asyncio.gather(*[call() for _ in range(5)]), sep=", ")
    ticker.cancel()
    waited = time.monotonic() - began
    assert len(ticks) > 5 or waited < 0.01, f"the event loop stood still: {len(ticks)} ticks in {waited:.2f} s"
    await gear.aclose()

asyncio.run(main())
"""
REFUSED = ", ".join(["refused by the fleet"] * 5)


@pytest.fixture
async def opened(settings):
    """The settings' environment, in whose fleet the tool's circuit is open."""
    await publish(settings, circuit("mcp:weather:get_forecast", "forced_open", 1, until=None))
    return settings_environment(settings)


async def output_of(code, environment, log):
    with python(code, log=log, extra=environment) as child:
        assert await asyncio.to_thread(child.wait_for_exit, 60) == 0, child.output()
    return child.output().strip()


@pytest.mark.parametrize(
    ("code", "more"),
    [
        (FIVE_CALLS.format(arguments="start_wait_s=30"), {}),
        (FIVE_CALLS.format(arguments=""), {"SWITCHGEAR_START_WAIT_S": "30"}),
        (TASKS_AT_ONCE, {"SWITCHGEAR_START_WAIT_S": "30"}),
    ],
    ids=["by the argument", "by the setting", "coroutines"],
)
async def test_a_new_process_is_refused_from_its_first_call_on(opened, tmp_path, code, more):
    assert await output_of(code, opened | more, tmp_path / "log") == REFUSED


async def test_a_new_process_that_does_not_wait_makes_its_first_call(opened, tmp_path):
    found = await output_of(FIVE_CALLS.format(arguments=""), opened, tmp_path / "log")
    assert found.startswith("called, ")


async def test_in_mode_deny_a_new_process_calls_once_it_has_the_fleets_circuits(opened, tmp_path):
    code = FIVE_CALLS.replace("mcp:weather:get_forecast", "another tool")
    found = await output_of(
        code.format(arguments='start_wait_s=30, on_state_unavailable="deny"'), opened, tmp_path / "log"
    )
    assert found == ", ".join(["called"] * 5)
