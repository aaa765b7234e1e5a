"""The follower learns of a real broker how far this machine's clock is off, and the guard decides by the broker's."""

from __future__ import annotations

import time

import pytest

from switchgear import CircuitFollower
from tests.integration.producers.circuits import circuit, publish
from tests.support.limits import HAPPEN_S
from tests.support.waiting import auntil


@pytest.mark.parametrize("ahead_s", [600.0, -600.0])
async def test_a_clock_that_is_ten_minutes_off_is_set_right_by_the_first_record(settings, ahead_s):
    await publish(settings, circuit("old", "open", 1))
    follower = CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix)
    broker_time = follower.broker_time
    broker_time.wall = lambda: time.time() + ahead_s
    try:
        follower.start()
        await auntil(lambda: follower.loaded, HAPPEN_S)
        assert broker_time() == pytest.approx(time.time() + ahead_s, abs=30)  # what lay there says nothing

        version = 0

        def heard():
            return broker_time.ahead_s != 0.0

        while not heard() and version < 20:  # on a busy machine the first records may be read late, and are passed over
            version += 1
            await publish(settings, circuit("new", "open", version))
        await auntil(heard, HAPPEN_S)
        assert broker_time() == pytest.approx(time.time(), abs=30)
    finally:
        assert follower.close(10)
