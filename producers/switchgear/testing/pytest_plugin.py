"""Fixtures for pytest. Register them in ``conftest.py``: ``pytest_plugins = ["switchgear.testing.pytest_plugin"]``.

They aren't registered automatically, because your tests may have a fixture with the same name.
"""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.fixture
def open_circuit(switchgear_fleet: InMemoryFleet) -> Callable[..., None]:
    """Return :meth:`InMemoryFleet.open_circuit`: ``open_circuit("tool")`` or ``open_circuit("tool", for_s=60)``."""
    return switchgear_fleet.open_circuit
