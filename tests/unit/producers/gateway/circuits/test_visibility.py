"""Which circuits a token gets."""

from __future__ import annotations

from switchgear_access.principal import LOCAL, Principal, Role
from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_gateway.circuits.visibility import CircuitFilter, may_follow
from tests.support.table import table
from tests.unit.producers.gateway.circuits.test_changes import record


def sees(tool: str, scope: str = "tool", **fields: object) -> bool:
    return CircuitFilter(**fields).sees(CircuitChanges().add(record(tool, 0, scope=scope)))  # type: ignore[arg-type]


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


def test_a_tenant_sees_no_circuits_of_users_and_sessions() -> None:
    for scope, expected in {"tool": True, "family": True, "user": False, "session": False}.items():
        assert sees("search", scope, for_tenant=True) is expected
        assert sees("search", scope) is True


def test_the_roles_emit_and_read_may_follow_circuits() -> None:
    roles = {role: may_follow(Principal("p", frozenset({role}))) for role in Role}
    assert roles == dict.fromkeys(Role, True)
    assert not may_follow(Principal("p", frozenset()))
    assert may_follow(LOCAL)


def test_clients_with_the_same_rights_share_their_bytes() -> None:
    one = CircuitFilter.of(Principal("a", frozenset({Role.READ}), tools=("x*",)), "*")
    two = CircuitFilter.of(Principal("b", frozenset({Role.EMIT}), tools=("x*",)), "*")
    assert (one, hash(one)) == (two, hash(two))
    assert CircuitFilter.of(Principal("c", frozenset({Role.READ}), "acme"), None).for_tenant
