"""Chains of fallbacks: in order, each tool once, whatever circles the names make."""

from __future__ import annotations

import pytest

from switchgear import SwitchgearError
from switchgear.fallback import FallbackMap
from tests.support.table import table

NAMED = {"a": ["b", "c"], "b": ["d"], "c": ["a", "b"], "d": ["a", "e"]}


@pytest.mark.parametrize(
    ("tool", "chain"),
    [("a", ["b", "c", "d", "e"]), ("b", ["d", "a", "e", "c"]), ("d", ["a", "e", "b", "c"]), ("e", [])],
)
def test_a_chain_goes_on_with_the_fallbacks_of_its_tools_and_names_each_once(tool, chain):
    assert FallbackMap(NAMED).chain(tool) == tuple(chain)


def test_a_single_name_is_a_chain_of_one():
    assert FallbackMap({"a": "b"}).chain("a") == ("b",)


def test_a_tool_without_a_chain_has_none():
    assert FallbackMap().chain("a") == ()
    assert FallbackMap({"a": "b"}).chain("b") == ()


def test_a_later_chain_replaces_the_earlier_one_of_the_same_tool():
    chains = FallbackMap({"a": "b", "b": "c"})
    assert chains.chain("a") == ("b", "c")
    chains.update({"b": ["d"]})
    assert chains.chain("a") == ("b", "d")
    assert chains.chains() == {"a": ("b", "d"), "b": ("d",)}


def test_rejects_a_tool_that_is_its_own_fallback():
    with pytest.raises(SwitchgearError, match=r"a can't be its own fallback\. Leave it out"):
        FallbackMap({"a": ["b", "a"]})


@pytest.mark.parametrize("chain", [[""], ["b", 3], [None]])
def test_rejects_a_chain_that_is_not_a_list_of_names(chain):
    with pytest.raises(SwitchgearError, match="The fallbacks of a must be a tool"):
        FallbackMap({"a": chain})


@table(
    "chains",
    [{"a": None}, {"a": 5}, {"a": print}, {"a": {"b", "c"}}, {"a": b"bc"}, {5: "b"}, {"": "b"}, ["a", "b"], "a", 3],
)
def test_rejects_fallbacks_that_are_not_chains_by_tool(chains):
    with pytest.raises(SwitchgearError, match=r"allbacks (of .*)?must (be|have)"):
        FallbackMap(chains)


def test_if_one_chain_is_impossible_none_is_set():
    chains = FallbackMap({"a": "z"})
    with pytest.raises(SwitchgearError):
        chains.update({"a": "c", "b": "b"})
    assert chains.chains() == {"a": ("z",)}
