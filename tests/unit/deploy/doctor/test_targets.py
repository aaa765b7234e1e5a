"""The doctor suggests circuits by site for tools that read pages."""

from __future__ import annotations

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.doctor.targets import reads_pages, targets_finding

PAGES = [
    "fetch", "mcp:fetch:fetch", "mcp:fetch:fetch_markdown", "mcp:playwright:browser_navigate", "mcp:chrome:navigate_page", "WebFetch",
    "mcp:firecrawl:firecrawl_scrape", "http_request", "curl", "mcp:web:open_url", "mcp:x:get_page", "mcp:x:https_get",
]  # fmt: skip
OTHERS = [
    "search", "prefetch", "mcp:db:fetch_rows", "mcp:fetch:status", "mcp:git:git_fetch_all", "navigate_menu", "mcp:x:crawler_status",
    "web_search", "",
]  # fmt: skip


@pytest.mark.parametrize("tool", PAGES)
def test_a_tool_that_reads_pages_is_known_by_its_name(tool):
    assert reads_pages(tool)


@pytest.mark.parametrize("tool", OTHERS)
def test_other_tools_are_left_alone(tool):
    assert not reads_pages(tool)


def test_suggests_a_target_for_the_first_tool_and_names_the_others():
    found = targets_finding([*PAGES, "search"], PolicySet())
    assert found.status == "warn"
    assert "WebFetch, curl, fetch and 9 more" in found.seen
    assert found.todo.startswith('Put [tools."WebFetch"] with target = "url.host" into the policy file')


@pytest.mark.parametrize("value", ["url.host", "off"])
def test_is_silent_about_a_tool_whose_policy_speaks_of_targets(value):
    policies = PolicySet(tools={"mcp:fetch:*": {"target": value}})
    assert targets_finding(["mcp:fetch:fetch", "search"], policies).status == "ok"


def test_is_silent_about_a_tool_that_has_circuits_of_targets():
    assert targets_finding(["fetch"], PolicySet(), ["fetch"]).status == "ok"
