"""Two gateways of a fleet in memory, and clients of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.testing import InMemoryFleet
from switchgear_gateway.otlp.submission import SubmitResult
from switchgear_schemas import ToolExecution
from tests.support.gateway_app import GatewayClient, gateway

POLICY = BreakerPolicy(
    consecutive_failures=3,
    wait_duration_in_open_state_s=30,
    permitted_number_of_calls_in_half_open_state=1,
    success_threshold_to_close=1,
    max_wait_duration_in_half_open_state_s=20,
)


class MemorySubmit:
    """Hands executions to the fleet in memory, after the ``results`` that a test wants first."""

    def __init__(self, fleet: InMemoryFleet) -> None:
        self._fleet = fleet
        self.results: list[SubmitResult | Exception] = []
        self.resent: list[bool] = []

    async def __call__(self, executions: Sequence[ToolExecution], *, resent: bool) -> SubmitResult:
        self.resent.append(resent)
        if self.results:
            result = self.results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result
        for each in executions:
            fields = each.model_dump(mode="json", exclude={"tool_name", "status"})
            self._fleet.report(each.tool_name, each.status, **fields)
        return SubmitResult()


class Place:
    """A fleet, and what its gateways share."""

    def __init__(self, fleet: InMemoryFleet) -> None:
        self.fleet = fleet
        self.submit = MemorySubmit(fleet)
        self.gears: list[Switchgear] = []

    def gateway(self, **options):
        """Return the application of one more gateway."""
        gear = self.fleet.gear("gateway")
        self.gears.append(gear)
        return gateway(gear, self.submit, wall=self.fleet.clock.wall, **options)

    def client(self, **options) -> GatewayClient:
        """Return a client of one more gateway, on its own machine."""
        return GatewayClient(self.gateway(**options))

    def events(self, tool: str, *, status: str | None = None) -> list[dict]:
        found = [event for event in self.fleet.events(tool) if event["status"] != "rejected"]
        return [event for event in found if status in {None, event["status"]}]


@pytest.fixture
def place():
    made = Place(InMemoryFleet(POLICY))
    yield made
    for gear in made.gears:
        gear.close()


@pytest.fixture
def client(place):
    return place.client()
