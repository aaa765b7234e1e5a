"""A small fleet with many faults: a run takes a second or less."""

from __future__ import annotations

from typing import Any

from tests.simulator.scenario import Scenario


def small(seed: int = 1, **changes: Any) -> Scenario:
    """Return the small scenario with ``changes``."""
    settings: dict[str, Any] = {
        "processes": 15,
        "tools": 8,
        "hours": 0.3,
        "calls_per_s": 5.0,
        "outage_every_s": 300.0,
        "outage_s": 90.0,
        "server_outage_every_s": 500.0,
        "server_outage_s": 60.0,
        "worker_crash_every_s": 90.0,
        "zombie_every_s": 300.0,
        "worker_outage_every_s": 600.0,
        "process_crash_every_s": 60.0,
        "stale_every_s": 60.0,
        "cut_every_s": 60.0,
        "command_every_s": 150.0,
    }
    return Scenario(seed=seed, **(settings | changes))
