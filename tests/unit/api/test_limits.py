"""The API's answers about circuits say the tools' rate limits, which the store doesn't have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from switchgear.follower.view import CircuitView, decode_view
from switchgear_api.limits import with_limits
from switchgear_http.visibility import Sight
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.pacing import Pace, RateLimit
from switchgear_sinks.repository.circuits import RECORD

NOW = datetime(2026, 11, 26, 2, tzinfo=UTC)


def limited(name: str) -> CircuitView:
    limit = RateLimit(credential="", rate=2.0, granted=1.5, period_s=60.0, asked=20, until=NOW, paused_until=NOW)
    fields: dict[str, Any] = {"circuit_id": name, "tool_name": name, "state": "closed", "version": 3, "generation": 2}
    pace = Pace("enforce", 5.0, (limit,))
    record = Circuit(**fields, changed_at=NOW, pace=pace, admitted_rate=2.0, active_processes=4)
    return decode_view(record.to_bytes())


def stored(name: str) -> dict[str, Any]:
    return {"circuit_id": name, "tool_name": name, "state": "open", "version": 7}


def test_a_stored_circuit_gets_the_limit_that_the_fleet_has_now():
    [search, mail] = with_limits([stored("search"), stored("mail")], {"search": limited("search")})
    assert (search["state"], search["admitted_rate"], search["active_processes"]) == ("open", 2.0, 4)
    [limit] = search["pace"]["limits"]
    assert search["pace"]["mode"] == "enforce"
    assert (limit["rate"], limit["granted"], limit["asked"]) == (2.0, 1.5, 20)
    assert limit["until"] == limit["paused_until"] == "2026-11-26T02:00:00.000Z"
    assert mail["pace"] is mail["admitted_rate"] is None


def test_a_circuit_that_only_has_a_limit_is_listed_although_no_record_of_it_is_stored():
    [mail, search] = with_limits([stored("mail")], {"search": limited("search")})
    assert mail["circuit_id"] == "mail"
    assert (search["circuit_id"], search["state"], search["opens"], search["cause"]) == ("search", "closed", 0, None)
    assert set(RECORD) <= search.keys()


def test_who_asks_for_what_refuses_gets_no_circuit_that_only_has_a_limit():
    [mail] = with_limits([stored("mail")], {"search": limited("search")}, only_stored=True)
    assert mail["circuit_id"] == "mail"


def test_a_tenant_sees_no_limit_because_all_tenants_share_it():
    [search] = with_limits([stored("search")], {"search": limited("search")})
    seen = Sight(tenant="acme").seen(search)
    assert not {"pace", "admitted_rate", "active_processes"} & seen.keys()
