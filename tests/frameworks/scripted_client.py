"""A scripted agent in front of an MCP server: it lists the tools before each turn and makes the calls of the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from switchgear.testing.adapter_suite import SuiteCall, SuiteRun


async def play(
    run: SuiteRun,
    turns: Sequence[Sequence[SuiteCall]],
    *,
    list_tools: Callable[[], Awaitable[set[str]]],
    call_tool: Callable[[str, dict[str, Any]], Awaitable[str]],
) -> None:
    """Play all turns, and the last request without calls. An exception of a call ends the run.

    Args:
        run: Where to note what the agent sees.
        turns: The calls of each turn.
        list_tools: Returns the names of the tools.
        call_tool: Makes a call, and returns the text of its result.
    """
    for calls in (*turns, ()):
        run.requests += 1
        run.offered.append(await list_tools())
        try:
            run.results += await asyncio.gather(*(call_tool(call.tool, dict(call.arguments)) for call in calls))
        except Exception as error:
            run.error = error
            return


def text_of(result: Any) -> str:
    """Return the text of an MCP result."""
    return "\n".join(block.text for block in result.content if block.type == "text")
