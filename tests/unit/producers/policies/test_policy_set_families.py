"""Policies of families come from tables of their own, over a default of their own."""

import pytest

from switchgear.policies import PolicyError, PolicySet
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT
from tests.support.table import table

TOML = """
[default]
wait_duration_in_open_state_s = 30
[tools."mcp:*"]
minimum_reporters = 3
[family."mcp:*"]
minimum_tools = 3
wait_duration_in_open_state_s = 40
[family."mcp:weather"]
minimum_tools = 1
cusum = "off"
"""


@pytest.fixture
def policies(tmp_path):
    path = tmp_path / "policies.toml"
    path.write_text(TOML)
    return PolicySet.load(path)


def test_without_tables_a_family_has_the_default_of_families():
    assert PolicySet().effective_family("mcp:weather") == FAMILY_DEFAULT
    assert PolicySet(family_base=FLEET_DEFAULT).effective_family("mcp:weather") == FLEET_DEFAULT


def test_values_come_from_the_most_specific_table_of_families_and_not_from_those_of_tools(policies):
    weather = policies.effective_family("mcp:weather")
    assert (weather.minimum_tools, weather.cusum, weather.wait_duration_in_open_state_s) == (1, None, 40)
    assert weather.minimum_reporters == FAMILY_DEFAULT.minimum_reporters
    assert policies.effective_family("http:x").wait_duration_in_open_state_s == 60
    assert policies.effective("mcp:weather").minimum_tools == 1
    assert policies.effective("mcp:weather").cusum is not None


def test_an_explanation_names_the_tables_of_families(policies):
    explained = policies.explain_family("mcp:weather")
    assert explained.tables == ('[family."mcp:weather"]', '[family."mcp:*"]')
    assert explained.sources["wait_duration_in_open_state_s"] == '[family."mcp:*"]'
    assert explained.sources["minimum_reporters"] == "built-in default"


@table(
    ("values", "message"),
    [
        ({"fallback": ["other"]}, r'\[family."mcp:\*"\]: a family has no fallback'),
        ({"scope": "user"}, "a family has one circuit for all its users"),
        ({"target": "url.host"}, "a family has one circuit for all its targets"),
        ({"minimum_tool": 2}, "Did you mean minimum_tools"),
        ({"minimum_tools": 0}, "minimum_tools"),
        ({"minimum_tools": 65}, "minimum_tools"),
        ({"wait_duration_in_open_state_s": 50, "max_wait_duration_in_open_state_s": 10}, "must not be less"),
    ],
)
def test_refuses_values_that_no_family_can_have(values, message):
    with pytest.raises(PolicyError, match=message):
        PolicySet(family={"mcp:*": values})


def test_accepts_the_scope_that_every_family_has():
    assert PolicySet(family={"mcp:*": {"scope": "tool"}}).effective_family("mcp:x").scope == "tool"


def test_refuses_tables_of_families_that_contradict_each_other_only_together():
    tables = {
        "mcp:*": {"sliding_window_type": "count", "sliding_window_size": 5, "minimum_number_of_calls": 5},
        "mcp:w*": {"minimum_number_of_calls": 9},
    }
    with pytest.raises(PolicyError, match="no rate would be judged"):
        PolicySet(family=tables)


def test_refuses_an_unknown_table_at_the_top_and_names_the_nearest(tmp_path):
    path = tmp_path / "policies.toml"
    path.write_text('[families."mcp:*"]\nminimum_tools = 3\n')
    with pytest.raises(PolicyError, match="Did you mean family"):
        PolicySet.load(path)


def test_families_may_have_a_ramp_and_one_of_them_may_go_without(tmp_path):
    path = tmp_path / "policies.toml"
    path.write_text('[family."mcp:*"]\nrecovery_ramp = [0.1, 0.5]\n[family."mcp:weather"]\nrecovery_ramp = "off"\n')
    policies = PolicySet.load(path)
    assert policies.effective_family("mcp:github").recovery_ramp == (0.1, 0.5)
    assert policies.effective_family("mcp:weather").recovery_ramp is None
    path.write_text('[family."mcp:*"]\nrecovery_ramp = [0.5, 0.1]\n')
    with pytest.raises(PolicyError, match="rise from step to step"):
        PolicySet.load(path)
