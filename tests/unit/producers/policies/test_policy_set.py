import itertools
import random
import subprocess
import sys
import time

import pytest

from switchgear.policies import PolicyError, PolicySet
from switchgear.policies.glob import coverings, matches, specificity
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from tests.support.table import table


def written(tmp_path, text, name="policies.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_without_a_file_every_tool_has_the_built_in_default():
    assert PolicySet.load(None).effective("anything") == FLEET_DEFAULT
    assert PolicySet.load(None, base=LOCAL_DEFAULT).effective("anything") == LOCAL_DEFAULT


TOML = """
[default]
wait_duration_in_open_state_s = 30
[tools."mcp:*"]
minimum_reporters = 3
wait_duration_in_open_state_s = 40
[tools."mcp:weather:*"]
cusum = "off"
wait_duration_in_open_state_s = 50
[tools."mcp:weather:get"]
cusum = {broken_failure_rate = 0.4}
"""
YAML = """
default: {wait_duration_in_open_state_s: 30}
tools:
  "mcp:*": {minimum_reporters: 3, wait_duration_in_open_state_s: 40}
  "mcp:weather:*": {cusum: off, wait_duration_in_open_state_s: 50}
  "mcp:weather:get": {cusum: {broken_failure_rate: 0.4}}
"""


@pytest.mark.parametrize(("text", "name"), [(TOML, "p.toml"), (YAML, "p.yaml"), (YAML, "p.yml")])
def test_every_covering_table_takes_part_and_the_most_specific_wins(tmp_path, text, name):
    policies = PolicySet.load(written(tmp_path, text, name))
    assert policies.effective("other").wait_duration_in_open_state_s == 30
    assert policies.effective("mcp:search").wait_duration_in_open_state_s == 40
    weather = policies.effective("mcp:weather:x")
    assert (weather.wait_duration_in_open_state_s, weather.minimum_reporters, weather.cusum) == (50, 3, None)
    exact = policies.effective("mcp:weather:get")
    assert exact.cusum.broken_failure_rate == 0.4
    assert exact.cusum.tolerable_failure_rate == 0.1
    assert exact.wait_duration_in_open_state_s == 50


def test_an_explanation_says_where_each_value_came_from(tmp_path):
    explained = PolicySet.load(written(tmp_path, TOML)).explain("mcp:weather:get")
    assert explained.tables == ('[tools."mcp:weather:get"]', '[tools."mcp:weather:*"]', '[tools."mcp:*"]')
    assert explained.sources["wait_duration_in_open_state_s"] == '[tools."mcp:weather:*"]'
    assert explained.sources["minimum_reporters"] == '[tools."mcp:*"]'
    assert explained.sources["cusum.broken_failure_rate"] == '[tools."mcp:weather:get"]'
    assert explained.sources["cusum.tolerable_failure_rate"] == "built-in default"
    assert explained.sources["jitter"] == "built-in default"
    assert explained.policy == PolicySet.load(written(tmp_path, TOML)).effective("mcp:weather:get")
    assert set(BreakerPolicy.model_fields) <= set(explained.sources)


@table(
    ("narrow", "broad"),
    [("abc", "abc*"), ("abc", "ab[c]"), ("abc*", "ab*"), ("ab*", "a*c"), ("a*cd", "a*d"), ("a?", "*"), ("a*", "*b")],
)
def test_the_more_specific_glob_takes_precedence(narrow, broad):
    assert specificity(narrow) > specificity(broad)


def test_among_equals_the_earlier_in_the_file_wins():
    policies = PolicySet(
        tools={"*a": {"jitter": 0.1}, "*b": {"jitter": 0.2}, "b*": {"jitter": 0.3}, "?b": {"jitter": 0.4}}
    )
    assert policies.effective("xa").jitter == 0.1
    assert policies.effective("xb").jitter == 0.2
    assert policies.effective("bb").jitter == 0.3


@table(
    ("pattern", "covered", "not_covered"),
    [
        ("mcp:*", "mcp:a/b", "xmcp:a"),
        ("a?c", "abc", "abbc"),
        ("[ab]x", "bx", "cx"),
        ("[!ab]x", "cx", "ax"),
        ("A", "A", "a"),
    ],
)
def test_globs_cover_the_whole_name_and_case_matters(pattern, covered, not_covered):
    assert matches(pattern, covered)
    assert not matches(pattern, not_covered)


def test_a_rule_with_a_default_of_its_own_can_be_turned_off():
    policies = PolicySet({"consecutive_auth_failures": "off"}, {"a": {"consecutive_auth_failures": 5}})
    assert policies.effective("b").consecutive_auth_failures is None
    assert policies.effective("a").consecutive_auth_failures == 5


@table(
    ("values", "message"),
    [
        (
            {"failure_rate_treshold": 0.4},
            r'policies: \[tools."a\*"\]: unknown key failure_rate_treshold. Did you mean failure_rate_threshold\?',
        ),
        ({"cusum": {"p0": 0.4}}, "cusum: unknown key p0. Known: broken_failure_rate"),
        ({"jitter": 3}, "jitter: Input should be less than 1 .got 3."),
        ({"slow_call_duration_threshold_ms": 200}, "needs slow_call_rate_threshold"),
        ({"minimum_reporters": "off"}, "minimum_reporters can't be turned off. Leave it out."),
        ({"sliding_window_type": "count", "sliding_window_size": 10}, "no rate would be judged"),
        ({"sliding_window_type": "count", "sliding_window_size": 60, "sliding_window_panes": 6}, "belongs to a time"),
        ({"cusum": {"broken_failure_rate": 0.05}}, "must be greater than tolerable_failure_rate"),
        ({"half_open_decision": "rate", "failure_rate_threshold": "off"}, "needs failure_rate_threshold or"),
        ({"mode": "sometimes"}, "mode: Input should be 'enforce'"),
        (3, r"\[tools.\"a\*\"\] is a int. Make it a table"),
    ],
)
def test_an_error_names_the_table_and_the_key(values, message):
    with pytest.raises(PolicyError, match=message):
        PolicySet(tools={"a*": values})


def test_two_tables_that_can_cover_one_tool_and_contradict_each_other_are_found():
    broad = {"sliding_window_type": "count", "minimum_number_of_calls": 5}
    with pytest.raises(
        PolicyError, match=r'\[tools."ab\*"\] over \[tools."a\*"\] over \[default\]: sliding_window_panes'
    ):
        PolicySet(tools={"a*": broad, "ab*": {"sliding_window_panes": 4}})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.toml", "x = ", "is not valid TOML"),
        ("p.yaml", "a: [", "is not valid YAML"),
        ("p.yaml", "- a", "holds a list. Give it the keys default and tools"),
        ("p.ini", "", "is neither .toml nor .yaml"),
        ("p.toml", "defaults = 1", "unknown key defaults. Did you mean default?"),
        ("p.toml", "default = 1", "default is a int. Make it a table"),
    ],
)
def test_refuses_a_file_that_is_not_a_policy_file(tmp_path, name, text, message):
    with pytest.raises(PolicyError, match=message.replace("?", r"\?")):
        PolicySet.load(written(tmp_path, text, name))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PolicyError, match=r"There is no policy file .*absent\.toml"):
        PolicySet.load(tmp_path / "absent.toml")


def test_yaml_without_pyyaml_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(PolicyError, match=r"pip install 'switchgear\[service\]', or write it as TOML"):
        PolicySet.load(written(tmp_path, "default: {}", "p.yaml"))


@pytest.mark.slow
def test_toml_needs_no_pyyaml():
    code = "import sys; sys.modules['yaml'] = None; from switchgear.policies import PolicySet; PolicySet.load(None)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_empty_file_changes_nothing(tmp_path):
    assert PolicySet.load(written(tmp_path, "", "p.yaml")).effective("a") == FLEET_DEFAULT
    assert PolicySet.load(written(tmp_path, "")).effective("a") == FLEET_DEFAULT


def test_a_longer_wait_than_the_cap_raises_the_cap_unless_one_is_given():
    policies = PolicySet({"wait_duration_in_open_state_s": 900})
    assert policies.effective("a").max_wait_duration_in_open_state_s == 900
    with pytest.raises(PolicyError, match="must not be less than"):
        PolicySet({"wait_duration_in_open_state_s": 900, "max_wait_duration_in_open_state_s": 800})


def test_tools_with_the_same_tables_share_one_policy_object():
    policies = PolicySet(tools={"a*": {"jitter": 0.1}})
    assert policies.effective("a1") is policies.effective("a2")
    assert policies.effective("b1") is policies.effective("b2")


def test_tables_inherit_the_ramp_after_retry_after_and_may_turn_it_off_or_give_other_shares(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(
        '[tools."mcp:*"]\nminimum_reporters = 3\n[tools."mcp:a"]\nretry_after_ramp = "off"\n[tools."mcp:b"]\nretry_after_ramp = [0.2]\n'
    )
    policies = PolicySet.load(path)
    assert policies.effective("mcp:c").retry_after_ramp == (0.1, 0.25, 0.5)
    assert policies.effective("mcp:a").retry_after_ramp is None
    assert policies.effective("mcp:b").retry_after_ramp == (0.2,)
    assert PolicySet.load(path, base=LOCAL_DEFAULT).effective("mcp:c").retry_after_ramp is None


def test_a_flag_can_be_false():
    assert PolicySet({"honor_retry_after": False}).effective("a").honor_retry_after is False


def test_three_tables_that_can_cover_one_tool_and_contradict_each_other_are_found():
    tables = {
        "mcp:*": {"sliding_window_type": "count"},
        "*db*": {"sliding_window_size": 15, "failure_rate_threshold": "off", "minimum_number_of_calls": 5},
        "*-prod": {"failure_count": 20},
    }
    for left_out in tables:
        PolicySet(tools={pattern: values for pattern, values in tables.items() if pattern != left_out})
    with pytest.raises(PolicyError, match=r"failure_count \(20\) is more than a window of 15 calls") as found:
        PolicySet(tools=tables)
    assert all(pattern in str(found.value) for pattern in tables)


def test_tables_that_no_tool_has_together_may_contradict_each_other():
    tables = {
        "a*": {"sliding_window_type": "count"},
        "b*": {"sliding_window_size": 15, "minimum_number_of_calls": 5},
        "*-prod": {"failure_count": 20},
    }
    assert PolicySet(tools=tables).effective("b-prod").failure_count == 20


def test_a_third_table_may_make_two_contradicting_tables_possible():
    tables = {
        "*": {"sliding_window_type": "count", "minimum_number_of_calls": 5},
        "mcp:*": {"failure_count": 50},
        "mcp:db-*": {"sliding_window_size": 50},
    }
    assert PolicySet(tools=tables).effective("mcp:db-1").sliding_window_size == 50


@pytest.mark.slow
def test_a_loaded_policy_set_never_raises_for_a_tool():
    chance = random.Random(7)
    parts = ["*", "?", "a", "b", "ab", "[ab]", "[!a]", ":"]
    values = [
        {"sliding_window_type": "count"},
        {"sliding_window_size": 10},
        {"minimum_number_of_calls": 5},
        {"failure_count": 12},
        {"failure_rate_threshold": "off"},
        {"half_open_decision": "rate"},
        {"sliding_window_panes": 2},
    ]
    names = ["".join(name) for size in range(1, 5) for name in itertools.product("abc:", repeat=size)]
    refused = 0
    for _ in range(150):
        tables = {
            "".join(chance.choices(parts, k=chance.randint(1, 4))): chance.choice(values)
            for _ in range(chance.randint(2, 5))
        }
        try:
            policies = PolicySet(tools=tables)
        except PolicyError:
            refused += 1
            continue
        for name in names:
            policies.effective(name)
    assert 10 < refused < 140


@pytest.mark.deep
def test_a_thousand_tables_load_within_seconds():
    tables = {f"mcp:server{number}:*": {"jitter": 0.1} for number in range(998)} | {"*": {"jitter": 0.2}}
    began = time.process_time()
    assert PolicySet(tools=tables).effective("mcp:server7:x").jitter == 0.1
    assert time.process_time() - began < 20


def test_globs_that_share_a_name_only_when_they_overlap_within_it_are_found():
    tables = {"ab*c": {"sliding_window_type": "count", "failure_count": 50}, "a*bc": {"sliding_window_size": 20}}
    with pytest.raises(PolicyError, match=r"failure_count \(50\) is more than a window of 20 calls"):
        PolicySet(tools=tables)


@pytest.mark.slow
def test_the_sets_of_globs_that_can_cover_a_name_are_those_that_cover_some_name():
    chance = random.Random(11)
    parts = ["*", "?", "a", "b", "ab", "[ab]", "[!a]", "[a-c]", "[]a]", "[!]a]", "[", "[]", "é", "[é-ü]"]
    names = ["".join(name) for size in range(1, 5) for name in itertools.product("abcx]é[û", repeat=size)]
    for _ in range(20):
        patterns = ["".join(chance.choices(parts, k=chance.randint(1, 3))) for _ in range(3)]
        found = {tuple(matches(pattern, name) for pattern in patterns) for name in coverings(patterns)}
        assert found >= {tuple(matches(pattern, name) for pattern in patterns) for name in names} - {(False,) * 3}


def test_one_name_is_yielded_for_each_set_of_globs_that_can_cover_one():
    names = coverings(["ab*c", "a*bc"])
    assert sorted((matches("ab*c", name), matches("a*bc", name)) for name in names) == [
        (False, True),
        (True, False),
        (True, True),
    ]


@pytest.mark.deep
def test_tables_that_overlap_in_too_many_ways_are_refused():
    with pytest.raises(PolicyError, match="overlap in too many ways to check"):
        PolicySet(tools={f"*{letter}*": {"jitter": 0.1} for letter in "abcdefghijklmnop"})


def test_off_is_a_value_of_the_pace_and_not_the_lack_of_one():
    policies = PolicySet(tools={"a": {"pace": "off"}, "b": {"pace": False}, "c": {"pace_limit": "off"}})
    assert [policies.effective(tool).pace for tool in "abcd"] == ["off", "off", "learn", "learn"]
    assert policies.effective("c").pace_limit is None
