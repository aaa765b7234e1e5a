"""What a campaign found: lines while it runs, a table at its end, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutations.catalogue import Mutation
from tests.mutations.pytest_run import Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutation.

    Attributes:
        mutation: The mutation.
        outcome: What became of it.
        seconds: How long its tests took.
        by: The test that noticed it, or what went wrong.
    """

    mutation: Mutation
    outcome: Outcome
    seconds: float
    by: str = ""

    def line(self) -> str:
        """Return the result in one line. Of a survivor it says what a user would see."""
        more = f"  by {self.by}" if self.outcome.is_kill else f"  {self.by or self.mutation.harm}"
        return f"{self.outcome:<12} {self.seconds:7.1f} s  {self.mutation.id}{more}"


def table(results: Sequence[Result]) -> str:
    """Return how many were killed, by area and together."""
    areas = _areas(results)
    width = max(map(len, [*areas, "total"]))
    rows = [f"{area:<{width}}  {killed:>3} of {total:>3} killed" for area, (killed, total) in areas.items()]
    killed, imports = sum(each.outcome.is_kill for each in results), _number(results, Outcome.IMPORT_ERROR)
    rows.append(f"{'total':<{width}}  {killed:>3} of {len(results):>3} killed")
    if imports:
        rows.append(f"{imports} of them by an import error: write better mutations.")
    if failed := _number(results, Outcome.ERROR, Outcome.TIMED_OUT):
        rows.append(f"{failed} without a result, because pytest failed or the time was over.")
    return "\n".join(rows)


def write(path: Path, results: Sequence[Result], about: dict[str, Any]) -> None:
    """Write the results as JSON. ``about`` says what was run."""
    content = {
        **about,
        "killed": sum(each.outcome.is_kill for each in results),
        "total": len(results),
        "areas": {area: {"killed": killed, "total": total} for area, (killed, total) in _areas(results).items()},
        "mutations": [
            {
                "id": each.mutation.id,
                "area": each.mutation.area,
                "file": each.mutation.file,
                "harm": each.mutation.harm,
                "outcome": str(each.outcome),
                "seconds": round(each.seconds, 1),
                "by": each.by or None,
            }
            for each in results
        ],
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _areas(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for each in results:
        killed, total = found.get(each.mutation.area, (0, 0))
        found[each.mutation.area] = killed + each.outcome.is_kill, total + 1
    return found


def _number(results: Sequence[Result], *outcomes: Outcome) -> int:
    return sum(each.outcome in outcomes for each in results)
