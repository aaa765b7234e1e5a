"""Records with a tool's rate limits reach the clients of a gateway as they are, but not those of one tenant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from switchgear.fleet import Message
from switchgear.follower.view import decode_view
from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.visibility import Named, Sight
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.pacing import Pace, RateLimit

NOW = datetime(2026, 11, 26, 2, tzinfo=UTC)
SEARCH = Named(frozenset(["search"]), frozenset())


def value() -> bytes:
    limit = RateLimit(credential="5f", rate=2.0, granted=1.5, period_s=60.0, asked=20, until=NOW)
    fields: dict[str, Any] = {"circuit_id": "search", "tool_name": "search", "state": "closed", "version": 3}
    fields |= {"generation": 2, "changed_at": NOW, "admitted_rate": 2.0, "active_processes": 4, "news": "pace"}
    return Circuit(**fields, pace=Pace("enforce", 5.0, (limit,))).to_bytes()


def event(sight: Sight) -> dict[str, Any]:
    change = CircuitChanges().add(Message("circuits", 0, 0, int(NOW.timestamp() * 1000), b"search", value()))
    [data] = [line for line in CircuitFilter(sight).event(change).splitlines() if line.startswith(b"data: ")]
    found: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    return found


@pytest.mark.parametrize("sight", [Sight(), Sight(allowed=("sea*",))])
def test_a_client_of_all_tenants_gets_the_whole_record_so_that_it_keeps_the_limit(sight: Sight) -> None:
    found = event(sight)
    assert found == json.loads(value())
    assert found["news"] == "pace"
    assert decode_view(json.dumps(found).encode()).keeps_pace


def test_a_client_of_one_tenant_learns_nothing_of_what_all_tenants_ask_for() -> None:
    found = event(Sight(tenant="acme", named=SEARCH))
    assert found["circuit_id"] == "search"
    assert not {"pace", "admitted_rate", "active_processes", "news"} & found.keys()
    assert not decode_view(json.dumps(found).encode()).keeps_pace
