"""Changes are put together without loss and without a change of order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_alerts.grouping import MOST_IN_A_MESSAGE, group
from tests.support.alert_values import change, facts


def of(circuit, kind="opened", family=None, number=1):
    return change(
        circuit,
        kind,
        id=f"{circuit}@{number}:{kind}",
        incident=f"{circuit}@{number}",
        facts=facts(circuit, family=family),
    )


def ids(groups):
    return [[each.id for each in changes] for changes in groups]


def test_a_family_is_one_message_and_another_circuit_beside_it_has_its_own():
    changes = [of("mcp:x:a", family="mcp:x"), of("b"), of("mcp:x:c", family="mcp:x")]
    assert ids(group(changes, stormy=False)) == [["mcp:x:a@1:opened", "mcp:x:c@1:opened"], ["b@1:opened"]]


def test_three_circuits_that_wait_together_are_one_message_and_in_a_storm_two_are():
    assert ids(group([of("a"), of("b"), of("c")], stormy=False)) == [["a@1:opened", "b@1:opened", "c@1:opened"]]
    assert ids(group([of("a"), of("b")], stormy=False)) == [["a@1:opened"], ["b@1:opened"]]
    assert ids(group([of("a"), of("b")], stormy=True)) == [["a@1:opened", "b@1:opened"]]


def test_a_list_is_one_message_unless_it_is_larger_than_one():
    changes = [of(f"t{n}") for n in range(MOST_IN_A_MESSAGE + 1)]
    assert [len(each) for each in group(changes, stormy=True)] == [MOST_IN_A_MESSAGE, 1]


def test_circuits_that_opened_and_closed_share_the_message_of_the_ends_with_those_that_only_closed():
    changes = [of("a"), of("b", "resolved"), of("a", "resolved"), of("c"), of("c", "resolved")]
    assert ids(group(changes, stormy=True)) == [
        ["a@1:opened", "c@1:opened"],
        ["a@1:resolved", "b@1:resolved", "c@1:resolved"],
    ]


CHANGES = st.lists(
    st.builds(
        lambda name, kind, number: of(f"mcp:{name % 2}:{name}", kind, family=f"mcp:{name % 2}" if name < 4 else None, number=number),
        st.integers(0, 6), st.sampled_from(["opened", "updated", "resolved"]), st.integers(1, 9),
    ),
    max_size=40,
)  # fmt: skip


@pytest.mark.slow
@given(CHANGES, st.booleans())
def test_any_changes_are_all_there_of_one_kind_a_message_and_in_order_for_each_circuit(changes, stormy):
    groups = group(changes, stormy=stormy)
    assert all(len({each.kind for each in found}) == 1 for found in groups)
    assert all(len({each.facts.circuit_id for each in found}) == len(found) for found in groups)
    flat = [each for found in groups for each in found]
    for circuit in {each.facts.circuit_id for each in changes}:
        assert [each for each in flat if each.facts.circuit_id == circuit] == [
            each for each in changes if each.facts.circuit_id == circuit
        ]
    assert len(flat) == len(changes)
