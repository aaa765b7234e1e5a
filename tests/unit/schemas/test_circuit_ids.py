"""No tool's name can have the id of another circuit, and an id says whose it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas.circuit_ids import MAX_CIRCUIT_ID_LENGTH, CircuitName, circuit_id, read_circuit_id, tool_circuit
from switchgear_schemas.enums import MAX_NAME_LENGTH
from tests.support.table import table

PIECES = (
    *("a", "|", "%", "=", ":", "@", "25", "7C", "40", "3A", "user", "session", "tenant", "family", "\n"),
    *("|user=", "|session=", "|tenant=", "|family", "%7C", "%25", "%40", "@a"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=8)
NAMES = st.one_of(
    st.tuples(TEXTS, st.sampled_from(("tool", "family")), st.just("")),
    st.tuples(TEXTS, st.sampled_from(("user", "session", "tenant", "target")), TEXTS),
).map(CircuitName._make)
HOSTILE = (
    *(
        "|" * 256,
        "%25" * 85,
        "|user=" * 42,
        "\ud800|user=\udfff",
        "\0|family",
        "|family|family",
        "%7Cfamily",
        "x\n|family",
        "|family\n",
    ),
    *("@" * 256, "@", "a@b", "%40", "@|family", "a@b|user=c@d", ":@:", "@:@"),
)


@table(
    ("name", "found"),
    [
        (CircuitName("search"), "search"),
        (CircuitName("search", "user", "ana"), "search|user=ana"),
        (CircuitName("search", "session", "s|user=1"), "search|session=s|user=1"),
        (CircuitName("search", "tenant", "acme|user=1"), "search|tenant=acme|user=1"),
        (CircuitName("search|tenant=acme"), "search%7Ctenant=acme"),
        (CircuitName("search|tenant=acme", "tenant", "globex"), "search%7Ctenant=acme|tenant=globex"),
        (CircuitName("mcp:github", "family"), "mcp:github|family"),
        (CircuitName("mcp:fetch:fetch", "target", "example.org"), "mcp:fetch:fetch@example.org"),
        (CircuitName("mcp:fetch:fetch", "target", "[::1]"), "mcp:fetch:fetch@[%3A%3A1]"),
        (CircuitName("a|b%c|family2"), "a|b%c|family2"),
        (CircuitName("mcp:@scope/server:tool"), "mcp:@scope/server:tool"),
        (CircuitName("mcp:@scope/server", "family"), "mcp:@scope/server|family"),
        (CircuitName("a@b", "target", "c"), "a@b@c"),
        (CircuitName("a@b@c"), "a%40b%40c"),
        (CircuitName("mcp:fetch:fetch@example.org"), "mcp:fetch:fetch%40example.org"),
        (CircuitName("search|user=ana"), "search%7Cuser=ana"),
        (CircuitName("search|user=ana", "user", "ben"), "search%7Cuser=ana|user=ben"),
        (CircuitName("mcp:github|family"), "mcp:github%7Cfamily"),
        (CircuitName("search%7Cuser=ana"), "search%257Cuser=ana"),
        (CircuitName("100%25"), "100%2525"),
    ],
)
def test_only_a_name_with_a_mark_is_encoded(name, found):
    assert circuit_id(*name) == found
    assert read_circuit_id(found) == name


@given(NAMES)
def test_an_id_says_what_it_was_made_of(name):
    assert read_circuit_id(circuit_id(*name)) == name


@given(NAMES, NAMES)
def test_no_name_has_the_id_of_another_circuit(one, other):
    assert (circuit_id(*one) == circuit_id(*other)) == (one == other)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    ("scope", "whose"), [("tool", ""), ("user", "|family"), ("session", "%7C"), ("target", "|family@:"), ("family", "")]
)
def test_a_hostile_name_keeps_its_circuits_apart(name, scope, whose):
    found = circuit_id(name, scope, whose)
    assert read_circuit_id(found) == (name, scope, whose)
    assert len(circuit_id(name[:MAX_NAME_LENGTH], scope, "|" * MAX_NAME_LENGTH)) <= MAX_CIRCUIT_ID_LENGTH


def test_the_fast_way_to_a_tools_own_circuit_gives_the_same_id():
    assert [tool_circuit(name) for name in HOSTILE] == [circuit_id(name) for name in HOSTILE]
