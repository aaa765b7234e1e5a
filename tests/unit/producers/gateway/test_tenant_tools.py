"""What a gateway remembers of the tools that tenants name."""

from __future__ import annotations

from switchgear_gateway.tenant_tools import TenantTools
from switchgear_http.principal import LOCAL, Principal, Role

EMIT = frozenset({Role.EMIT})


def tenant(name: str, *tools: str) -> Principal:
    return Principal(name, EMIT, name, tools)


def test_a_tenants_tools_and_their_families_are_remembered_for_all_its_tokens() -> None:
    tools, changed = TenantTools(), list[str]()
    tools.on_change = changed.append
    tools.note(tenant("acme"), ["search", "mcp:github:merge"])
    found = tools.of(Principal("another token", EMIT, "acme"))
    assert (found.tools, found.families) == ({"search", "mcp:github:merge"}, {"mcp:github"})
    tools.note(tenant("acme"), ["search"])
    assert tools.of(tenant("acme")) is found, "the same until it changes"
    assert changed == ["acme"]
    assert not tools.of(tenant("globex")).tools


def test_nothing_is_remembered_of_clients_that_see_circuits_without_naming_tools() -> None:
    tools = TenantTools()
    for each in (LOCAL, Principal("p", EMIT, tools=("mcp:*",)), tenant("acme", "mcp:*")):
        tools.note(each, ["search"])
    assert tools.tenants == 0


def test_tools_and_tenants_are_bounded_and_the_longest_unused_are_forgotten() -> None:
    tools = TenantTools(most_tenants=2, most_tools=3)
    acme = tenant("acme")
    tools.note(acme, ["a", "b", "c"])
    tools.note(acme, ["a"])
    tools.note(acme, ["d"])
    assert tools.of(acme).tools == {"a", "c", "d"}
    for other in ("globex", "initech"):
        tools.note(tenant(other), [f"{number}" for number in range(1_000)])
        assert len(tools.of(tenant(other)).tools) == 3
    assert tools.tenants == 2
    assert not tools.of(acme).tools
