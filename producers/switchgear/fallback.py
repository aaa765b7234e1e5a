"""Which tool to call when the wanted one's circuit is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def choose(primary: str, chain: Iterable[str], is_open: Callable[[str], bool]) -> str | None:
    """The first tool of ``primary, *chain`` whose circuit lets a call through.

    When every one is open the primary is tried all the same: never eject everything (Envoy's panic threshold). A tool
    named twice is asked once. None means that there is no chain, so nothing to choose from: the refusal stands.
    """
    tools = list(dict.fromkeys((primary, *chain)))
    for tool in tools:
        if not is_open(tool):
            return tool
    return primary if len(tools) > 1 else None
