"""Test agents against a whole fleet in memory, with a clock that the test moves.

from switchgear.testing import InMemoryFleet

fleet = InMemoryFleet()
gear = fleet.gear("planner")
fleet.open_circuit("mcp:weather:get_forecast")
assert gear.is_open("mcp:weather:get_forecast")

For pytest: ``pytest_plugins = ["switchgear.testing.pytest_plugin"]``.
"""

from switchgear.testing.fakes import MemoryEmitter, MemoryFollower
from switchgear.testing.fleet import FakeClock, InMemoryFleet
from switchgear.testing.log import MemoryLog
from switchgear.testing.worker import MemoryWorker

__all__ = [
    "FakeClock",
    "InMemoryFleet",
    "MemoryEmitter",
    "MemoryFollower",
    "MemoryLog",
    "MemoryWorker",
]
