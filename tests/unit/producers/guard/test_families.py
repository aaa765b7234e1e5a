"""The names of families in a guard."""

import pytest

from switchgear.guard.families import Family, family_finder
from switchgear_schemas.errors import SettingsError


def test_finds_the_family_of_a_tool_and_the_id_of_its_circuit():
    assert family_finder("mcp:*:*")("mcp:github:search") == Family("mcp:github", "mcp:github|family")


def test_a_tool_whose_name_does_not_match_has_no_family():
    assert family_finder("mcp:*:*")("http:github:search") is None
    assert family_finder("")("mcp:github:search") is None


def test_clients_with_the_same_pattern_share_what_was_found():
    assert family_finder("a:*") is family_finder("a:*")


def test_a_wrong_pattern_is_refused():
    with pytest.raises(SettingsError, match="family_pattern"):
        family_finder("mcp")("mcp:github:search")
