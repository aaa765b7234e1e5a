"""Values that no policy can have are refused. The error names the table and the key."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from switchgear.breaker import Breaker
from switchgear.policies import PolicyError, PolicySet
from switchgear_schemas import BreakerPolicy
from tests.support.table import table

WIDE = 16**9000
NUMERIC = [
    name
    for name, field in BreakerPolicy.model_fields.items()
    if name not in {"cusum", "honor_retry_after", "counted_error_classes", "fallback"}
    and not isinstance(field.default, str)
]


@table("key", NUMERIC)
@table(
    "value",
    [
        True,
        "1",
        float("inf"),
        float("-inf"),
        float("nan"),
        -1,
        10**400,
        pytest.param(WIDE, id="wide"),
        1e300,
        [],
        {"a": 1},
        [[1]],
    ],
)
def test_no_number_may_be_endless_a_flag_text_or_beyond_its_bounds(key, value):
    with pytest.raises(PolicyError, match=rf'policies: \[tools."a"\] over \[default\]: {key}') as caught:
        PolicySet(tools={"a": {key: value}})
    assert len(str(caught.value)) < 300


@table("key", ["tolerable_failure_rate", "broken_failure_rate", "calls_between_false_opens"])
@table("value", [True, "1", float("inf"), float("nan"), 0, 10**400])
def test_the_numbers_of_cusum_have_bounds(key, value):
    with pytest.raises(PolicyError, match=rf"cusum\.{key}"):
        PolicySet({"cusum": {key: value}})


@pytest.mark.parametrize("size", [0, 1e-9, 0.05, 86_401])
def test_a_window_near_zero_or_longer_than_a_day_is_refused(size):
    with pytest.raises(PolicyError, match="sliding_window_size"):
        PolicySet({"sliding_window_size": size})


def test_rates_whose_threshold_would_take_minutes_to_solve_are_refused():
    with pytest.raises(PolicyError, match="too close together"):
        PolicySet({"cusum": {"tolerable_failure_rate": 0.0001, "broken_failure_rate": 0.000105}})


def test_a_tool_is_not_its_own_fallback_but_a_glob_may_name_a_tool_that_it_covers():
    with pytest.raises(PolicyError, match=r'\[tools."a"\]: fallback: a tool can\'t be its own fallback. Leave it out'):
        PolicySet(tools={"a": {"fallback": ["b", "a"]}})
    assert PolicySet(tools={"mcp:*": {"fallback": ["mcp:backup"]}}).effective("mcp:x").fallback == ("mcp:backup",)


@table("fallback", ["abc", [""], ["x" * 257], ["a"] * 33, [1], [["a"]], {"a": 1}])
def test_fallbacks_are_a_short_list_of_names(fallback):
    with pytest.raises(PolicyError, match="fallback"):
        PolicySet(tools={"a": {"fallback": fallback}})


@pytest.mark.parametrize("honor", [1, "yes", None])
def test_a_flag_is_true_or_false_and_nothing_like_it(honor):
    with pytest.raises(PolicyError, match="honor_retry_after: Input should be a valid boolean"):
        PolicySet({"honor_retry_after": honor})


@table("pattern", ["[!a-z_]", "[!]", "[!]a]", "[z-a]", "[!!-~]", "*[!a-z_A-Z0-9]*"])
def test_a_glob_that_covers_odd_names_or_none_is_accepted(pattern):
    assert PolicySet(tools={pattern: {"jitter": 0.1}}).effective("a").jitter == 0.0


_value = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**60),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["off", "count", "time", "rate", "user", 0, 1, 2, 0.5, 1e-9, 0.1, 10**400, float("inf")]),
    st.lists(st.one_of(st.text(max_size=3), st.integers()), max_size=3),
    st.dictionaries(st.sampled_from(["tolerable_failure_rate", "broken_failure_rate", "x"]), st.floats(), max_size=2),
)
_table = st.dictionaries(st.sampled_from([*BreakerPolicy.model_fields, "other"]), _value, max_size=4)


@pytest.mark.slow
@given(_table, st.dictionaries(st.sampled_from(["a", "a*", "*", "[!a", "?b"]), _table, max_size=3))
@example({"sliding_window_size": {"x": 1.0}}, {})
@example({}, {"a": {"cusum": "x"}, "a*": {"cusum": {"x": 1.0}}})
def test_arbitrary_tables_give_a_working_policy_or_a_policy_error(default, tools):
    try:
        policies = PolicySet(default, tools)
    except PolicyError as error:
        assert len(str(error)) < 1000
        return
    now = 1.7e9
    for tool in ("a", "b", "ab"):
        breaker = Breaker(tool, policies.effective(tool), now)
        breaker.advance(now + 1)
        Breaker.restore(breaker.snapshot(), policies.effective(tool))
