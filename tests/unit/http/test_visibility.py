"""What a client may learn of the circuits that all tenants share."""

from __future__ import annotations

from typing import Any

from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_http.visibility import EVERYTHING, Named, Sight
from switchgear_schemas.circuit import Circuit
from tests.support.table import table

READER = frozenset({Role.READ})
SECRETS = ("alice", "maintenance", "of globex", "globex@host", "globex-tool", "4711")
RECORD: dict[str, Any] = {
    "circuit_id": "search",
    "tool_name": "search",
    "scope": "tool",
    "state": "forced_open",
    "previous_state": "closed",
    "version": 3,
    "generation": 2,
    "cause": {
        "rule": "command",
        "threshold": 0.5,
        "actor": "alice",
        "reason": "maintenance",
        "value": 4711.0,
        "sample": 4711,
    },
    "changed_at": "2026-11-28T12:00:00Z",
    "open_until": "2026-11-28T12:30:00Z",
    "leases": [{"lease_id": "2.1", "emitter_id": "globex@host-1", "expires_at": "2026-11-28T12:40:00Z"}],
    "counts": {"calls": 4711},
    "last_error": "of globex",
    "fallback": ["globex-tool"],
    "of_a_later_release": "4711",
}


def sight(tenant: str | None = "acme", *named: str, tools: tuple[str, ...] = ()) -> Sight:
    return Sight.of(Principal("p", READER, tenant, tools), Named.of(named))


def test_a_tenant_sees_the_state_the_rule_and_the_times_of_a_circuit_and_nothing_of_others() -> None:
    found = sight("acme", "search").seen(RECORD)
    assert not [each for each in SECRETS if each in str(found)]
    assert found["cause"] == {"rule": "command", "threshold": 0.5}
    kept = ("state", "previous_state", "version", "generation", "changed_at", "open_until")
    assert [found[name] for name in kept] == [RECORD[name] for name in kept]


def test_a_client_of_all_tenants_sees_the_whole_record() -> None:
    for principal in (LOCAL, Principal("p", READER), Principal("p", READER, tools=("search",))):
        assert Sight.of(principal).seen(RECORD) is RECORD
    assert EVERYTHING.sees_circuit("search", "user")


def test_every_field_of_a_record_was_decided_about() -> None:
    hidden = {"counts", "last_error"}  # the class of an error is one of our words
    hidden |= {"pace", "admitted_rate", "active_processes", "news"}  # measured over all tenants' calls
    full = dict.fromkeys(Circuit.__struct_fields__, "x")
    assert full.keys() - sight().seen(full).keys() == hidden


@table(
    ("named", "tools", "circuit", "scope", "expected"),
    [
        ((), (), "search", "tool", False),
        (("search",), (), "search", "tool", True),
        (("search",), (), "search2", "tool", False),
        (("search",), (), "search", "user", False),
        (("search",), (), "search", "session", False),
        (("search",), (), "search", "target", False),
        (("mcp:github:merge",), (), "mcp:github", "family", True),
        (("mcp:github:merge",), (), "mcp:gitlab", "family", False),
        (("search",), ("mcp:*",), "search", "tool", False),
        ((), ("mcp:*",), "mcp:github:merge", "tool", True),
        ((), ("mcp:*",), "mcp:github:merge", "user", False),
        ((), ("mcp:github:merge",), "mcp:github", "family", True),
    ],
)
def test_a_tenant_sees_what_its_token_lists_or_else_what_it_has_named(
    named: tuple[str, ...], tools: tuple[str, ...], circuit: str, scope: Any, expected: bool
) -> None:
    assert sight("acme", *named, tools=tools).sees_circuit(circuit, scope) is expected


def test_a_tenant_sees_its_own_circuit_of_a_tool_and_no_other_tenants() -> None:
    acme = sight("acme", "search")
    assert acme.sees_circuit("search", "tenant", "acme")
    assert not acme.sees_circuit("search", "tenant", "globex")
    assert not acme.sees_circuit("search", "user", "acme")
    assert not acme.sees_circuit("other", "tenant", "acme")
    assert EVERYTHING.sees_circuit("search", "tenant", "globex")


def test_a_tenant_sees_its_own_leases_and_the_fallbacks_that_it_knows() -> None:
    own = Sight(tenant="acme", named=Named.of(["search", "other"]), emitter_id="globex@host-1")
    found = own.seen(RECORD | {"fallback": ["globex-tool", "other"]})
    assert found["leases"] == RECORD["leases"]
    assert found["fallback"] == ["other"]
