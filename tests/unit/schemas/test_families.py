"""The family of a tool is a pure function of its name and the pattern in the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import Command, InvalidExecutionError, SettingsError
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.families import family_of, is_family, partition_key
from switchgear_schemas.partitioner import may_have_owned, owner_partition, partition_of
from switchgear_schemas.settings import load_settings
from tests.support.table import table


@table(
    ("tool_name", "family"),
    [
        ("mcp:github:search", "mcp:github"),
        ("mcp:github:issues:list", "mcp:github"),
        ("mcp:github", None),
        ("mcp::search", None),
        ("mcp:github:", None),
        ("http:github:search", None),
        ("search", None),
        ("", None),
    ],
)
def test_the_default_pattern_puts_the_tools_of_an_mcp_server_into_one_family(tool_name, family):
    assert family_of(tool_name) == family


@table(
    ("pattern", "tool_name", "family"),
    [
        ("http:*", "http:example.com:443/x", "http"),
        ("*:*:*", "mcp:github:search", "mcp:github"),
        ("a:*:b:*", "a:x:b:c:d", "a:x:b"),
        ("a:*:b:*", "a:x:c:d", None),
        ("mcp:*:*, http:*", "http:search", "http"),
        ("mcp:*:*, http:*", "mcp:github:search", "mcp:github"),
        ("", "mcp:github:search", None),
    ],
)
def test_the_first_pattern_that_takes_a_name_gives_its_family(pattern, tool_name, family):
    assert family_of(tool_name, pattern) == family


@table("pattern", ["mcp", "*", "mcp:github", "m*:*", "mcp::*", "mcp:*:", "mcp:*:*,", "mcp:*:*,mcp:*"])
def test_refuses_a_pattern_that_is_wrong_and_names_the_setting(pattern):
    with pytest.raises(SettingsError, match="family_pattern"):
        family_of("mcp:github:search", pattern)
    with pytest.raises(SettingsError, match="family_pattern"):
        load_settings(family_pattern=pattern)


def test_the_message_about_a_wrong_pattern_has_a_good_example():
    with pytest.raises(SettingsError, match=r'such as "mcp:\*:\*"'):
        load_settings(family_pattern="mcp")


def test_an_empty_pattern_in_the_environment_turns_families_off(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_FAMILY_PATTERN", "")
    assert load_settings().family_pattern == ""


@pytest.mark.slow
@given(
    parts=st.lists(st.text(st.characters(exclude_characters=":", codec="utf-8"), min_size=1), min_size=1, max_size=5)
)
def test_a_family_is_in_no_family_and_in_the_partition_of_its_tools(parts):
    tool_name = ":".join(["mcp", *parts])
    family = family_of(tool_name)
    assert (family is None) == (len(parts) < 2)
    if family is not None:
        assert family_of(family) is None
        assert is_family(family)
        assert partition_of(family, 12) == partition_of(tool_name, 12) == owner_partition(family, 12)


def test_tools_without_a_family_stay_in_their_own_partition():
    assert partition_key("search") == "search"
    assert partition_of("search", 12) == owner_partition("search", 12)


def test_a_partition_may_have_owned_a_tool_by_its_name_or_by_a_part_of_it():
    name = "mcp:github:search"
    owners = {owner_partition(key, 100) for key in (name, "mcp:github", "mcp")}
    assert {number for number in range(100) if may_have_owned(number, name, 100)} == owners


def test_a_policy_can_be_set_for_the_circuit_of_a_family():
    command = {"tool_name": "mcp:github", "verb": "set_policy", "actor": "me", "policy": {"minimum_tools": 3}}
    assert Command.from_dict({**command, "circuit_id": circuit_id("mcp:github", "family")}).policy is not None
    with pytest.raises(InvalidExecutionError, match="circuit_id"):
        Command.from_dict({**command, "circuit_id": "mcp:github|user=u"})
