"""memory_gear: a client of a fleet of its own, for tests that need no second process."""

from __future__ import annotations

from typing import Any

from switchgear.client import Switchgear
from switchgear.testing.fleet import FleetPolicies, InMemoryFleet


def memory_gear(
    service: str = "", *, policies: FleetPolicies | None = None, **options: Any
) -> tuple[Switchgear, InMemoryFleet]:
    """A client and the fleet it is the only member of.

    Args:
        service: name of the service.
        policies: of the fleet's circuits.
        options: :class:`~switchgear.Switchgear`'s.
    """
    fleet = InMemoryFleet(policies)
    return fleet.gear(service, **options), fleet
