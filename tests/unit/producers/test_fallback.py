"""The first tool that lets a call through; with none, the primary: never eject everything."""

from __future__ import annotations

import pytest

from switchgear.fallback import choose


@pytest.mark.parametrize(
    ("closed", "chosen"),
    [({"a", "b", "c"}, "a"), ({"b", "c"}, "b"), ({"c"}, "c"), (set(), "a")],
)
def test_the_first_closed_tool_of_the_chain_is_chosen_and_with_none_the_primary(closed, chosen):
    assert choose("a", ("b", "c"), lambda tool: tool not in closed) == chosen


def test_without_a_chain_the_refusal_stands():
    assert choose("a", (), lambda _tool: True) is None


def test_without_a_chain_a_closed_primary_is_chosen():
    assert choose("a", (), lambda _tool: False) == "a"


def test_a_chain_of_the_primary_alone_is_no_chain():
    assert choose("a", ("a", "a"), lambda _tool: True) is None


def test_every_tool_is_asked_once():
    asked = []
    choose("a", ("b", "a", "b", "c"), lambda tool: asked.append(tool) or True)
    assert asked == ["a", "b", "c"]
