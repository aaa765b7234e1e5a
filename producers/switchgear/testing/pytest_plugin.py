"""Fixtures for pytest. In a ``conftest.py``: ``pytest_plugins = ["switchgear.testing.pytest_plugin"]``.

Not registered by itself: a name such as ``fake_clock`` may be yours already.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switchgear.testing.clock import FakeClock
from switchgear.testing.fleet import InMemoryFleet


@pytest.fixture
def fake_clock() -> FakeClock:
    """The clock of ``switchgear_fleet``."""
    return FakeClock()


@pytest.fixture
def switchgear_fleet(fake_clock: FakeClock) -> InMemoryFleet:
    """A fleet in memory: give it to ``Switchgear`` where the address of the brokers would be."""
    return InMemoryFleet(clock=fake_clock)


@pytest.fixture
def open_circuit(switchgear_fleet: InMemoryFleet) -> Callable[..., None]:
    """``open_circuit("tool")`` or ``open_circuit("tool", for_s=60)``: see :meth:`InMemoryFleet.open_circuit`."""
    return switchgear_fleet.open_circuit
