"""A client for one process, quick to open, and a way to make its circuits open."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Switchgear

QUICK = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)


class Broken(Exception):  # noqa: N818 - a tool's own exception
    """What a broken tool raises."""


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=QUICK)


@pytest.fixture
def broken():
    return Broken


@pytest.fixture
def open_circuit(gear):
    def break_it(tool):
        while gear.try_acquire(tool):
            gear.try_acquire(tool).failure(Broken("down"))
        assert gear.is_open(tool)

    return break_it
