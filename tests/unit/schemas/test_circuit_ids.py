"""No tool's name can have the id of another circuit, and an id says whose it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas.circuit_ids import MAX_CIRCUIT_ID_LENGTH, CircuitName, circuit_id, read_circuit_id, tool_circuit
from switchgear_schemas.enums import MAX_NAME_LENGTH
from tests.support.table import table

PIECES = (
    "a",
    "|",
    "%",
    "=",
    "25",
    "7C",
    "user",
    "session",
    "family",
    "|user=",
    "|session=",
    "|family",
    "%7C",
    "%25",
    "\n",
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=8)
NAMES = (
    st.builds(CircuitName, TEXTS)
    | st.builds(CircuitName, TEXTS, st.just("family"))
    | st.builds(CircuitName, TEXTS, st.sampled_from(("user", "session")), TEXTS)
)
HOSTILE = (
    "|" * 256,
    "%25" * 85,
    "|user=" * 42,
    "\ud800|user=\udfff",
    "\0|family",
    "|family|family",
    "%7Cfamily",
    "x\n|family",
    "|family\n",
)


@table(
    ("name", "found"),
    [
        (CircuitName("search"), "search"),
        (CircuitName("search", "user", "ana"), "search|user=ana"),
        (CircuitName("search", "session", "s|user=1"), "search|session=s|user=1"),
        (CircuitName("mcp:github", "family"), "mcp:github|family"),
        (CircuitName("a|b%c|family2"), "a|b%c|family2"),
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
@pytest.mark.parametrize(("scope", "whose"), [("tool", ""), ("user", "|family"), ("session", "%7C"), ("family", "")])
def test_a_hostile_name_keeps_its_circuits_apart(name, scope, whose):
    found = circuit_id(name, scope, whose)
    assert read_circuit_id(found) == (name, scope, whose)
    assert len(circuit_id(name[:MAX_NAME_LENGTH], scope, "|" * MAX_NAME_LENGTH)) <= MAX_CIRCUIT_ID_LENGTH


def test_the_fast_way_to_a_tools_own_circuit_gives_the_same_id():
    assert [tool_circuit(name) for name in HOSTILE] == [circuit_id(name) for name in HOSTILE]
