"""A check, its finding, and how checks run: at the same time, each with its own limit."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.visible import escaped

Status = Literal["ok", "warn", "fail", "skip"]
_STYLES: Final[dict[Status, str]] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
_WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "ok", "skip")
_COUNTED: Final[dict[Status, str]] = {"ok": "ok", "warn": "to look at", "fail": "failed", "skip": "skipped"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw, and what to do about it. ``todo`` is empty if there is nothing to do."""

    status: Status
    seen: str
    todo: str = ""


class SkippedError(SwitchgearError):
    """The check can't look, because of something that another check reports."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: What it looks at.
        look: Looks.
        needs: The name of an earlier check. If that one fails, this one can't look and is skipped.
    """

    name: str
    look: Callable[[], Awaitable[Finding]]
    needs: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's name, its finding, and how many seconds it took."""

    name: str
    finding: Finding
    seconds: float


def worst(findings: Iterable[Finding]) -> Status:
    """Return the worst status. If every check was skipped, that is ``skip``."""
    found = {each.status for each in findings}
    return next((status for status in _WORST_FIRST if status in found), "skip")


def joined(findings: Sequence[Finding], fine: str) -> Finding:
    """Return several findings as one: those with the worst status, or ``fine`` if all are ok."""
    status = worst(findings)
    if status == "ok" or not findings:
        return Finding("ok", fine)
    shown = [each for each in findings if each.status in {"fail", "warn"}] or findings
    todo = dict.fromkeys(each.todo for each in shown if each.todo)
    return Finding(status, " ".join(each.seen for each in shown), "\n".join(todo))


async def run_checks(checks: Sequence[Check], limit_s: float) -> list[CheckResult]:
    """Run all checks at the same time. Return their results in the same order. Nothing is raised.

    Args:
        checks: The checks. One that needs another comes after it.
        limit_s: The longest time of each, in seconds.
    """
    running: dict[str, asyncio.Task[CheckResult]] = {}
    for check in checks:
        needed = None if check.needs is None else running[check.needs]
        running[check.name] = asyncio.create_task(_run(check, needed, limit_s))
    return list(await asyncio.gather(*running.values()))


async def _run(check: Check, needed: asyncio.Task[CheckResult] | None, limit_s: float) -> CheckResult:
    if needed is not None and (before := await needed).finding.status in {"fail", "skip"}:
        return CheckResult(check.name, Finding("skip", f"Not checked, because of {before.name}."), 0.0)
    began = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            finding = await check.look()
    except TimeoutError:
        finding = Finding("fail", f"There was no answer within {limit_s:g} s.", "Try again with a longer --timeout.")
    except SkippedError as error:
        finding = Finding("skip", str(error))
    except SwitchgearError as error:
        finding = Finding("fail", error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - one check must not end the others
        finding = Finding("fail", f"The check could not be made: {type(error).__name__}: {error}".rstrip(": "))
    return CheckResult(check.name, finding, time.monotonic() - began)


def as_json(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the results for programs."""
    return {
        "status": worst([each.finding for each in results]),
        "checks": [{"name": each.name, **asdict(each.finding), "seconds": round(each.seconds, 3)} for each in results],
    }


def as_table(results: Sequence[CheckResult]) -> RenderableType:
    """Return the results for people: what was seen, and below it what to do."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for each in results:
        finding = each.finding
        table.add_row(Text(finding.status, style=_STYLES[finding.status]), Text(each.name), Text(escaped(finding.seen)))
        for line in finding.todo.splitlines():
            table.add_row("", "", Text(f"→ {escaped(line)}", style="bold"))
    counts = Counter(each.finding.status for each in results)
    counted = ", ".join(f"{counts[status]} {_COUNTED[status]}" for status in _COUNTED if counts[status])
    return Group(table, "", Text(f"{len(results)} checks: {counted}."))
