"""Clients of a gateway keep a tool's rate limit, which the gateway divides with the rest of the fleet."""

from __future__ import annotations

import pytest

from switchgear.testing import InMemoryFleet
from switchgear_schemas import FLEET_DEFAULT
from tests.unit.producers.gateway.conftest import Place

PACED = FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_limit": "100/10s", "pace_wait_s": 0})


@pytest.fixture
def place():
    made = Place(InMemoryFleet(PACED))
    yield made
    for gear in made.gears:
        gear.close()


async def test_a_call_over_the_limit_is_refused_with_a_time_and_words(place):
    client = place.client()
    await client.call("search", "success")
    answers = [await client.decide("search") for _ in range(8)]
    refused = answers[-1]
    assert (refused["allowed"], refused["source"], refused["state"]) == (False, "pace", "closed")
    assert 0 < refused["retry_after_s"] <= 1
    assert (
        refused["text"]
        == "The tool search was not called: its rate limit is used up. Do not call it within the next 1 s."
    )
    assert (refused["toolFailure"]["code"], refused["toolFailure"]["retryable"]) == ("paced", True)


@pytest.mark.slow
async def test_clients_of_gateways_and_processes_keep_the_limit_together(place):
    clients, gear = [place.client() for _ in range(2)], place.fleet.gear()
    made = []
    for step in range(1_000):
        place.fleet.advance(0.04)
        answer = await clients[step % 2].decide("search")
        if answer["allowed"]:
            made.append(step * 0.04)
            await clients[step % 2].outcome(answer["permit"])
        permit = gear.try_acquire("search")
        if permit:
            made.append(step * 0.04)
            permit.success()
    windows = [sum(begin <= at < begin + 10 for at in made) for begin in range(10, 30)]
    assert all(80 <= calls <= 110 for calls in windows)
    gear.close()
