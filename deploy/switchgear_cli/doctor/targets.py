"""Whether tools that read pages have a circuit for each site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from switchgear.policies import PolicySet
from switchgear.policies.policy_set import BUILT_IN
from switchgear_cli.doctor.checks import Finding

_MOST_NAMED: Final = 3
_WEB: Final = re.compile(
    r"(?:^|[^a-z])(?:(?:web)?_?fetch(?:_?(?:url|page|webpage|html|markdown|txt|json|content))?|navigate(?:_page)?|goto|open_?url|curl"
    r"|scrape(?:_url)?|crawl(?:_url)?|(?:read|get|visit)_?(?:url|page|webpage)|https?(?:_(?:request|get|post))?)$",
    re.IGNORECASE,
)
"""How the names end of tools that read pages, by the names that MCP servers and agents gave them in 2026."""


def reads_pages(tool: str) -> bool:
    """Return whether a tool reads pages, by its name alone."""
    return _WEB.search(tool.rpartition(":")[2]) is not None


def targets_finding(tools: Iterable[str], policies: PolicySet, split: Iterable[str] = ()) -> Finding:
    """Suggest ``target`` for tools that read pages and whose policy says nothing about it.

    Args:
        tools: Names of the tools.
        policies: The policy file.
        split: Tools that have circuits of targets already, by an operator's policy.
    """
    known = set(split)
    found = sorted(
        tool
        for tool in set(tools)
        if reads_pages(tool)
        and tool not in known
        and policies.explain(tool).sources.get("target", BUILT_IN) == BUILT_IN
    )
    if not found:
        return Finding("ok", "No tool reads pages with one circuit for all sites.")
    named = ", ".join(found[:_MOST_NAMED]) + (
        f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    )
    return Finding(
        "warn",
        f"By their names these tools read pages, and have one circuit for all sites: {named}. Sites that are down count against the tool.",
        f'Put [tools."{found[0]}"] with target = "url.host" into the policy file, or target = "off" if one circuit is right.',
    )
