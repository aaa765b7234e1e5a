"""Which circuits a token gets."""

from __future__ import annotations

from typing import Any

from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.principal import Principal, Role
from switchgear_http.visibility import Named, Sight
from tests.support.table import table
from tests.unit.producers.gateway.circuits.test_changes import record


def sees(tool: str, scope: str = "tool", wanted: str | None = None, **fields: Any) -> bool:
    return CircuitFilter(Sight(**fields), wanted).sees(CircuitChanges().add(record(tool, 0, scope=scope)))


@table(
    ("allowed", "wanted", "tool", "expected"),
    [
        ((), None, "search", True),
        (("search", "mcp:git*"), None, "search", True),
        (("search", "mcp:git*"), None, "mcp:github:merge", True),
        (("search", "mcp:git*"), None, "other", False),
        ((), "mcp:*", "search", False),
        (("search",), "mcp:*", "search", False),
        (("search",), "s*", "search", True),
    ],
)
def test_a_client_sees_the_tools_that_its_token_and_its_request_cover(
    allowed: tuple[str, ...], wanted: str | None, tool: str, expected: bool
) -> None:
    assert sees(tool, allowed=allowed, wanted=wanted) is expected


@table(
    ("glob", "expected"),
    [
        ("mcp:github:merge", True),
        ("mcp:github:*", True),
        ("mcp:git*", True),
        ("*", True),
        ("*:merge", True),
        ("mcp:github", True),
        ("mcp:githubs:*", False),
        ("mcp:githubs:merge", False),
        ("mcp:gitlab:*", False),
        ("search", False),
        ("s*", False),
    ],
)
def test_a_client_sees_the_family_of_every_tool_that_it_may_use(glob: str, expected: bool) -> None:
    assert sees("mcp:github", "family", allowed=(glob,)) is expected
    assert sees("mcp:github", "family", wanted=glob) is expected


def acme(wanted: str | None = None, *named: str) -> CircuitFilter:
    return CircuitFilter.of(Principal("acme", frozenset({Role.EMIT}), "acme"), wanted, named=Named.of(named))


@table(
    ("wanted", "named", "tool", "expected"),
    [
        (None, (), "search", False),
        (None, ("search",), "search", True),
        ("sea*", (), "search", False),
        ("sea*", ("search",), "search", True),
        ("search", (), "search", True),
        ("search", (), "other", False),
        ("other", ("search",), "search", False),
    ],
)
def test_a_tenant_sees_the_tools_that_it_has_named_and_a_whole_name_of_its_request(
    wanted: str | None, named: tuple[str, ...], tool: str, expected: bool
) -> None:
    assert acme(wanted, *named).sees(CircuitChanges().add(record(tool, 0))) is expected


def test_a_whole_name_names_the_family_too() -> None:
    family = CircuitChanges().add(record("mcp:github|family", 0, tool_name="mcp:github", scope="family"))
    assert acme("mcp:github:merge").sees(family)
    assert not acme("mcp:*").sees(family)


def test_clients_with_the_same_rights_share_their_bytes() -> None:
    one = CircuitFilter.of(Principal("a", frozenset({Role.READ}), tools=("x*",)), "*")
    two = CircuitFilter.of(Principal("b", frozenset({Role.EMIT}), tools=("x*",)), "*")
    assert (one, hash(one)) == (two, hash(two))
    assert one.reader is None
    tenants = [
        CircuitFilter.of(Principal("c", frozenset({Role.READ}), "acme"), None, named=Named.of(names))
        for names in (("a", "b"), ("b", "a"), ("a",))
    ]
    assert tenants[0] == tenants[1] != tenants[2]
    assert tenants[0].checksum == tenants[1].checksum != tenants[2].checksum
