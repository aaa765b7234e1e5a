"""What a client may do follows from its roles, tenant and tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_http.principal import LOCAL, Principal, Role, claims_login

ROLES = st.frozensets(st.sampled_from(Role))
NAMES = st.text("ab:", min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("held", "included"),
    [
        (Role.EMIT, {Role.EMIT}),
        (Role.READ, {Role.READ}),
        (Role.OPERATE, {Role.OPERATE, Role.READ}),
        (Role.ADMIN, set(Role)),
    ],
)
def test_role_includes_the_lesser_ones(held, included):
    client = Principal("a", frozenset({held}))
    assert {role for role in Role if client.may(role)} == included


@pytest.mark.slow
@given(ROLES, ROLES, st.sampled_from(Role))
def test_roles_add_up_and_never_take_away(some, more, needed):
    allowed = [Principal("a", roles).may(needed) for roles in (some, more)]
    assert Principal("a", some | more).may(needed) == any(allowed)


@pytest.mark.slow
@given(st.sampled_from(Role), NAMES, NAMES)
def test_client_of_a_tenant_may_touch_that_tenant_only(needed, own, other):
    client = Principal("a", frozenset({Role.ADMIN}), tenant=own)
    assert client.may(needed, tenant=other) == (own == other)
    assert client.may(needed, tenant=own)


def test_client_with_tool_globs_may_touch_only_what_they_cover():
    client = Principal("a", frozenset({Role.READ}), tools=("mcp:weather:*", "search"))
    assert client.may(Role.READ, tool="mcp:weather:get")
    assert client.may(Role.READ, tool="search")
    assert not client.may(Role.READ, tool="mcp:github:get")
    assert not client.may(Role.READ, tool="Search")
    assert not client.may(Role.EMIT, tool="search")


def test_only_a_client_without_tenant_and_tools_is_unrestricted():
    assert LOCAL.unrestricted
    assert not Principal("a", frozenset({Role.ADMIN}), tenant="acme").unrestricted
    assert not Principal("a", frozenset({Role.ADMIN}), tools=("*",)).unrestricted


def test_client_without_roles_may_do_nothing():
    assert not any(Principal("a", frozenset()).may(role) for role in Role)


def test_no_login_is_recorded_under_the_name_of_another_one():
    named = Principal("ada", frozenset(), credential="token abcdefghij")
    subject = Principal("ada", frozenset(), credential="jwt login.example.com:ada")
    spoofing = Principal("login.example.com:ada", frozenset(), credential="token klmnopqrst")
    local = Principal("ada", frozenset())
    assert [each.actor for each in (named, subject, spoofing, local)] == [
        "token:ada", "jwt:login.example.com:ada", "token:login.example.com:ada", "ada",
    ]  # fmt: skip
    assert [claims_login(each.actor) for each in (named, subject, spoofing, local)] == [True, True, True, False]
    assert claims_login("Token:ada")


def test_names_that_are_too_long_for_a_record_stay_apart():
    found = {Principal("x" * 255 + end, frozenset(), credential="token abcdefghij").actor for end in "ab"}
    assert len(found) == 2
    assert {len(each) for each in found} == {256}
