"""Globs in settings."""

from __future__ import annotations

from switchgear_schemas.globs import any_matches, globs_in, matches
from tests.support.table import table


@table(
    ("text", "globs"),
    [
        (None, ()),
        ("", ()),
        (" , ", ()),
        ("mcp:weather:*", ("mcp:weather:*",)),
        (" a , mcp:[ab]:?,", ("a", "mcp:[ab]:?")),
    ],
)
def test_a_setting_has_globs_between_commas(text, globs):
    assert globs_in(text) == globs


@table(
    ("glob", "name", "covers"),
    [
        ("mcp:weather:*", "mcp:weather:get_forecast", True),
        ("mcp:weather:*", "mcp:weather", False),
        ("mcp:weather:*", "MCP:weather:x", False),
        ("*", "", True),
        ("a[!b]c", "abc", False),
        ("a[b", "a[b", True),
        ("[a]", "[a]", True),
        ("a.c", "abc", False),
    ],
)
def test_a_glob_covers_whole_names(glob, name, covers):
    assert matches(glob, name) is covers


@table(
    ("text", "covered"),
    [
        ("", False),
        (" , ", False),
        ("mcp__x__*", False),
        ("Bash, mcp__*", True),
        ("mcp__web__fetch", True),
        ("MCP__*", False),
    ],
)
def test_one_glob_of_a_setting_is_enough(text, covered):
    assert any_matches(text, "mcp__web__fetch") is covered
