"""The operators' values over the policy file: which ones win, and what a change will do."""

import json

import pytest

from switchgear.fleet.rows import PolicyOverrides, Row
from switchgear.policies import PolicyError, PolicySet
from switchgear_api.operate.known_state import KnownState
from switchgear_api.operate.policy_in_force import after_setting, policy_used, with_overrides

NOTHING = KnownState({}, {})
FILE = PolicySet({"consecutive_failures": 5})


def failures(known, tool="mail"):
    return with_overrides(FILE.explain(tool), known).policy.consecutive_failures


def test_a_value_for_a_tool_wins_over_one_for_a_glob_whichever_was_set_last():
    both = after_setting(
        after_setting(NOTHING, "mail", {"consecutive_failures": 100}), "ma*", {"consecutive_failures": 2}
    )
    assert failures(both) == 100
    assert failures(both, "maps") == 2
    assert failures(both, "search") == 5


def test_values_are_added_to_those_of_the_same_name_and_nothing_removes_them():
    first = after_setting(NOTHING, "ma*", {"consecutive_failures": 3, "cusum": {"tolerable_failure_rate": 0.1}})
    second = after_setting(first, "ma*", {"cusum": {"tolerable_failure_rate": 0.2}, "jitter": 0.5})
    (kept,) = second.overrides.values()
    assert json.loads(kept.tables["ma*"]) == {
        "consecutive_failures": 3,
        "cusum": {"tolerable_failure_rate": 0.2},
        "jitter": 0.5,
    }
    assert failures(first) == failures(second) == 3
    assert failures(after_setting(second, "ma*", {})) == 5
    assert failures(after_setting(after_setting(NOTHING, "mail", {"consecutive_failures": 3}), "mail", {})) == 5
    assert (NOTHING.circuits, NOTHING.overrides) == ({}, {})


def test_values_of_a_family_are_those_of_its_circuit():
    known = after_setting(NOTHING, "mcp:mail|family", {"minimum_tools": 7})
    assert with_overrides(FILE.explain_family("mcp:mail"), known, family=True).policy.minimum_tools == 7
    assert known.families() == []


def test_copies_of_a_glob_in_several_partitions_count_once():
    tables = {"*": b'{"max_wait_duration_in_open_state_s": 60}', "ma*": b'{"wait_duration_in_open_state_s": 100}'}
    copies = {number: PolicyOverrides(partition=number, tables=tables) for number in range(3)}
    policy = with_overrides(FILE.explain("mail"), KnownState({}, copies)).policy
    assert (policy.wait_duration_in_open_state_s, policy.max_wait_duration_in_open_state_s) == (100, 100)


def test_worker_uses_the_file_where_the_operators_values_do_not_fit_over_it():
    row = Row(circuit_id="mail", tool_name="mail", policy=b'{"slow_call_duration_threshold_ms": 500}')
    known = KnownState({"mail": row}, {})
    with pytest.raises(PolicyError):
        with_overrides(FILE.explain("mail"), known)
    assert policy_used(FILE.explain("mail"), known) == FILE.effective("mail")
