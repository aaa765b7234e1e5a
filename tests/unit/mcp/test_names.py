"""A server, and each of its tools, prompts and resources, has one name for clients and one in circuits."""

import pytest

from switchgear_mcp import names
from switchgear_mcp.names import Names, is_plain, plain_names
from tests.support.table import table


def test_names_of_one_server_are_its_own():
    only = Names(["git"])
    assert only.outer("git", "log") == "log"
    assert only.inner("git_log") == ("git", "git_log")
    assert only.circuit("git_log") == "mcp:git:git_log"
    assert only.owner_of("git://x") == "git"


def test_of_several_servers_the_one_with_the_longest_matching_name_has_a_tool():
    for order in (["git", "git_hub"], ["git_hub", "git"]):
        several = Names(order)
        assert several.outer("git_hub", "issues") == "git_hub_issues"
        assert several.inner("git_hub_issues") == ("git_hub", "issues")
        assert several.inner("git_log") == ("git", "log")
        assert several.circuit("git_hub_issues") == "mcp:git_hub:issues"
        assert several.circuit("git_log") == "mcp:git:log"


@table("name", ["log", "git", "github_issues", "_log", ""])
def test_a_name_that_begins_with_no_server_is_of_none(name):
    several = Names(["git", "git_hub"])
    assert several.inner(name) is None
    assert several.circuit(name) == name


def test_a_resource_is_of_the_server_that_listed_it_and_the_memory_of_them_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(names, "_MOST_URIS", 2)
    several = Names(["a", "b"])
    several.owns("a", "x://1")
    several.owns("b", "x://2")
    assert [several.owner_of(uri) for uri in ("x://1", "x://2", "x://3")] == ["a", "b", None]
    several.owns("b", "x://3")
    assert [several.owner_of(uri) for uri in ("x://1", "x://2", "x://3")] == [None, None, "b"]


def test_servers_of_a_file_get_plain_names_that_differ_whatever_the_file_calls_them():
    found = plain_names(
        ["git", "My Server (dev)", "My-Server-dev", "My/Server/dev", "\u202e", "..", "x" * 100, "x" * 99 + " "]
    )
    assert found["git"] == "git"
    assert found["My-Server-dev"] == "My-Server-dev"  # a name that is plain is kept, also if it comes later
    assert found["My Server (dev)"] == "My-Server-dev-2"
    assert found["My/Server/dev"] == "My-Server-dev-3"
    assert found["\u202e"] == "server"
    assert len(set(found.values())) == len(found)
    assert all(is_plain(name) for name in found.values())
