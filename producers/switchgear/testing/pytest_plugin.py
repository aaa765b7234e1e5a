"""Fixtures for pytest. Register them in ``conftest.py``: ``pytest_plugins = ["switchgear.testing.pytest_plugin"]``.

They aren't registered automatically, because your tests may have a fixture with the same name.
"""

from __future__ import annotations

import pytest

from switchgear.testing.fleet import FakeClock, InMemoryFleet


@pytest.fixture
def fake_clock() -> FakeClock:
    """Return the clock of ``switchgear_fleet``."""
    return FakeClock()


@pytest.fixture
def switchgear_fleet(fake_clock: FakeClock) -> InMemoryFleet:
    """Return a fleet in memory. Pass it to ``Switchgear`` in place of the address of the brokers."""
    return InMemoryFleet(clock=fake_clock)
