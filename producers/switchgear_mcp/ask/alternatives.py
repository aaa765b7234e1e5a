"""What to use instead of a tool, and how that does now.

Only tools that somebody trusts are proposed: the fallbacks of the fleet's policy, those that answered its calls, and those that the caller names.
A tool with a similar name is not: anyone who runs a server can choose that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from switchgear.model_text import name_for_model
from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.callers import Caller
from switchgear_mcp.ask.figures import Figures, ToolFigures
from switchgear_mcp.ask.standing import Standing
from switchgear_mcp.ask.words import Answer, iso

MOST: Final = 10
_HOURS: Final = 1.0
_CALLS_READ: Final = 200
_AT_ONCE: Final = 4


class Alternative(NamedTuple):
    """A tool to use instead.

    Args:
        tool: Its name.
        because: Why it is proposed, in our words.
        figures: How its calls went. None: nobody has called it, as far as the caller sees.
    """

    tool: str
    because: str
    figures: ToolFigures | None


class Alternatives:
    """Finds alternatives.

    Args:
        api: The API.
        figures: Reads their numbers.
    """

    def __init__(self, api: Api, figures: Figures) -> None:
        self._api, self._figures = api, figures

    async def of(self, caller: Caller, tool: str, instead: Sequence[str], among: Sequence[str]) -> list[Alternative]:
        """Return the tool itself and the others.

        Args:
            caller: Who asks.
            tool: The tool.
            instead: The fallbacks of its policy.
            among: What the caller names.

        Raises:
            AskError: The API did not answer, or refused.
        """
        content = await self._api.get("/v1/calls", caller.token, tool=tool, limit=_CALLS_READ)
        because = dict.fromkeys(among, "you named it")
        because |= dict.fromkeys(_answered(content), "it answered calls of this tool")
        because |= dict.fromkeys(instead, "its fallback")
        because.pop(tool, None)
        ranked = sorted(because, key=lambda name: (name not in instead, name in among and name not in instead))
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str, why: str) -> Alternative:
            async with places:
                return Alternative(name, why, await self._figures.of(caller, name, _HOURS))

        chosen = [(tool, ""), *((name, because[name]) for name in ranked[:MOST])]
        return list(await asyncio.gather(*(one(name, why) for name, why in chosen)))

    def answer(self, tool: str, found: Sequence[tuple[Alternative, Standing]], now: datetime) -> Answer:
        """Return what is found, in words and values: first the tool itself, then the best one."""
        own, others = found[:1], sorted(found[1:], key=_rank)
        lines = [_line(each, standing, now) for each, standing in (*own, *others)]
        if not others:
            lines.append(
                f"No alternative to {name_for_model(tool)} is known: its policy has no fallback, and none answered its calls. "
                "Name the tools that you have as among."
            )
        data = {
            "checked_at": iso(now),
            "tool": _data(*own[0]),
            "alternatives": [_data(each, standing) for each, standing in others],
        }
        return Answer("\n".join(lines), data)


def _answered(content: Mapping[str, Any]) -> list[str]:
    calls = content.get("items")
    rows = [each for each in calls if isinstance(each, Mapping)] if isinstance(calls, list) else []
    found = [each["fallback_tool"] for each in rows if isinstance(each.get("fallback_tool"), str)]
    return list(dict.fromkeys(found))


def _rank(found: tuple[Alternative, Standing]) -> tuple[bool, bool, float]:
    figures = found[0].figures
    rate = None if figures is None else figures.success_rate
    return found[1].verdict != "available", rate is None, -(rate or 0.0)


def _line(found: Alternative, standing: Standing, now: datetime) -> str:
    why = f" ({found.because})" if found.because else ""
    numbers = "nobody has called it" if found.figures is None else found.figures.brief()
    state = standing.verdict if standing.verdict == "available" else standing.sentences(now).removesuffix(".")
    return f"{name_for_model(found.tool)}{why}: {state}; in the last hour {numbers}."


def _data(found: Alternative, standing: Standing) -> dict[str, object]:
    numbers = {} if found.figures is None else found.figures.data()
    return {**standing.data(), "because": found.because, "known": found.figures is not None, **numbers}
