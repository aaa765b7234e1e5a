"""How the calls of a tool went: numbers of the API, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from switchgear_mcp.ask.api import Api, segment
from switchgear_mcp.ask.callers import Caller
from switchgear_mcp.ask.errors import AskError
from switchgear_mcp.ask.words import clock, counted, dollars, instant, iso, milliseconds, share

_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """The calls of one tool in a period.

    Args:
        hours: The period.
        report: The tool's health report, as the API answers it.
        stats: Its statistics.
        last_success: When a call last succeeded.
        last_failure: When one last failed.
    """

    hours: float
    report: Mapping[str, Any]
    stats: Mapping[str, Any]
    last_success: datetime | None = None
    last_failure: datetime | None = None

    @property
    def calls(self) -> int:
        """Calls made."""
        return int(_number(self.report, "total_calls"))

    @property
    def success_rate(self) -> float | None:
        """Share of the judged calls that succeeded. None: no call was judged."""
        judged = self.calls - _number(self.report, "caller_errors") - _number(self.report, "cancelled_calls")
        return _number(self.report, "success_rate") if judged > 0 else None

    @property
    def usd_per_call(self) -> float | None:
        """Mean cost of a call in US dollars. None: no cost is known."""
        usd = _number(self.stats, "total_cost_usd")
        return usd / self.calls if self.calls and usd else None

    def sentence(self, now: datetime) -> str:
        """Return the numbers in words."""
        period = "the last hour" if self.hours == 1 else f"the last {self.hours:g} hours"
        parts = [f"In {period}: {self.brief()}."]
        if self.last_success is not None:
            parts.append(f"Its last success was at {clock(self.last_success, now)}.")
        if self.last_failure is not None:
            parts.append(f"Its last failure was at {clock(self.last_failure, now)}.")
        return " ".join(parts)

    def brief(self) -> str:
        """Return ``812 calls, 99.1 % succeeded, p50 120 ms, p95 480 ms, $0.0005 a call, 3 refused``."""
        refused = int(_number(self.report, "rejected_calls"))
        if not self.calls:
            return "no calls" + (f", {refused} refused" if refused else "")
        parts = [counted(self.calls, "call")]
        parts.append("none judged" if self.success_rate is None else f"{share(self.success_rate)} succeeded")
        parts += [f"p{each} {milliseconds(_number(self.report, f'p{each}_latency_ms'))}" for each in (50, 95)]
        parts += [] if self.usd_per_call is None else [f"{dollars(self.usd_per_call)} a call"]
        return ", ".join([*parts, *([f"{refused} refused"] if refused else [])])

    def data(self) -> dict[str, object]:
        """Return the numbers."""
        rate = self.success_rate
        return {
            "hours": self.hours,
            "calls": self.calls,
            "success_rate": None if rate is None else round(rate, 4),
            "p50_ms": _number(self.report, "p50_latency_ms") if self.calls else None,
            "p95_ms": _number(self.report, "p95_latency_ms") if self.calls else None,
            "usd_per_call": self.usd_per_call,
            "refused": int(_number(self.report, "rejected_calls")),
            "last_success": iso(self.last_success),
            "last_failure": iso(self.last_failure),
        }


class Figures:
    """Reads the numbers of tools.

    Args:
        api: The API.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def of(self, caller: Caller, tool: str, hours: float) -> ToolFigures | None:
        """Return the numbers of a tool. None: nobody has called it, as far as the caller sees.

        Raises:
            AskError: The API did not answer, or refused.
        """
        try:
            found = await self._api.get(f"/v1/tools/{segment(tool)}", caller.token, hours=hours)
        except AskError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return ToolFigures(
            hours,
            _part(found, "report"),
            _part(found, "stats"),
            instant(found.get("last_success")),
            instant(found.get("last_failure")),
        )


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(content: Mapping[str, Any], name: str) -> float:
    found = content.get(name)
    return found if isinstance(found, int | float) else 0.0
