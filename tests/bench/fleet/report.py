"""Tables, ratios and plots of the measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.fleet.outages import OUTAGES
from tests.bench.fleet.place import contender
from tests.bench.intervals import CONFIDENCE, Interval, paired_ratios, times, with_spread


@dataclass(frozen=True)
class Measure:
    """A column of the trials, and its heading."""

    field: str
    title: str
    in_plots: str


MEASURES: Final = (
    Measure("until_refused_s", "Seconds until all processes refuse", "seconds until all refuse"),
    Measure("wasted", "Calls wasted: they reached the broken tool", "calls wasted"),
    Measure("good_refused", "Healthy calls refused", "healthy calls refused"),
    Measure("probes", "Probes a recovery", "probes a recovery"),
)


class Results:
    """The trials of one mode.

    Args:
        trials: One dictionary for each contender, outage and round. ``None`` for seconds means never.
        names: The contenders. The first is the base of the ratios.
    """

    def __init__(self, trials: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
        self.trials = trials
        self.names = list(names)

    def values(self, name: str, outage: str, field: str) -> list[float]:
        """Return the values of all rounds, in the order of the rounds. Empty if there is nothing to measure."""
        found = sorted(
            (trial for trial in self.trials if trial["contender"] == name and trial["outage"] == outage),
            key=lambda trial: int(trial["round"]),
        )
        values = [trial[field] for trial in found]
        if field == "until_refused_s":
            return [math.inf if value is None else value for value in values]
        return [value for value in values if value is not None]

    def ratio(self, name: str, outage: str, field: str) -> Interval | None:
        """Return a contender's ratio to the first. None if a round of either has nothing to measure."""
        ours, theirs = self.values(self.names[0], outage, field), self.values(name, outage, field)
        return paired_ratios(theirs, ours) if ours and len(ours) == len(theirs) else None

    def tables(self) -> Iterator[str]:
        """Yield a table for each measure, and one of its ratios."""
        for measure in MEASURES:
            yield f"{measure.title}:\n\n{self._table(measure)}"
            if measure.field != "probes":
                yield f"The same as a ratio to {contender(self.names[0]).name}:\n\n{self._ratios(measure)}"

    def _table(self, measure: Measure) -> str:
        outages = [each.name for each in OUTAGES if each.total or measure.field != "probes"]
        rows = []
        for name in self.names:
            found = [self.values(name, outage, measure.field) for outage in outages]
            rows.append([contender(name).name, *(with_spread(values) if values else "-" for values in found)])
        return _markdown(["contender", *outages], rows)

    def _ratios(self, measure: Measure) -> str:
        rows = []
        for name in self.names[1:]:
            found = [self.ratio(name, outage.name, measure.field) for outage in OUTAGES]
            rows.append([contender(name).name, *("-" if each is None else times(each) for each in found)])
        return _markdown(["contender", *(outage.name for outage in OUTAGES)], rows)

    def coverage(self) -> str:
        """Return what the intervals are."""
        found = self.ratio(self.names[-1], OUTAGES[0].name, "wasted")
        if found is None:
            return ""
        words = "smallest and largest" if found.coverage < CONFIDENCE else "order statistics"
        return (
            f"A ratio is the median of the ratios of {found.values} rounds, with an interval by their {words}. It contains the true"
            f" median with a probability of {found.coverage:.0%}, whatever the distribution. `never` counts as infinite."
        )

    def ratios(self) -> list[dict[str, Any]]:
        """Return all ratios, for JSON."""
        return [
            {"contender": name, "outage": outage.name, "measure": measure.field, **asdict(found)}
            for measure in MEASURES
            for name in self.names[1:]
            for outage in OUTAGES
            if (found := self.ratio(name, outage.name, measure.field)) is not None
        ]

    def draw(self, path: Path, mode: str) -> bool:
        """Draw medians with their spread, an outage a column and a measure a row. Return False without matplotlib."""
        try:
            from matplotlib import rc_context  # noqa: PLC0415 - only here, and it need not be installed
            from matplotlib.figure import Figure  # noqa: PLC0415 - likewise
        except ImportError:
            return False
        figure = Figure(figsize=(16, 9), layout="constrained")
        axes: Any = figure.subplots(len(MEASURES), len(OUTAGES), sharey=True, squeeze=False)
        labels = [contender(name).name for name in self.names]
        for row, measure in enumerate(MEASURES):
            for column, outage in enumerate(OUTAGES):
                axis = axes[row][column]
                axis.set_visible(outage.total or measure.field != "probes")
                found = [self.values(name, outage.name, measure.field) for name in self.names]
                for place, values in enumerate(found):
                    _mark(axis, place, values, first=place == 0)
                right = max((value for values in found for value in values if math.isfinite(value)), default=0)
                axis.set(
                    xscale="symlog", xlim=(-0.1, max(10.0, 1.5 * right)), xlabel=measure.in_plots if column == 0 else ""
                )
                axis.set_yticks(range(len(labels)), labels)
                axis.grid(visible=True, axis="x", alpha=0.3)
                if row == 0:
                    axis.set_title(outage.name)
        axes[0][0].set_ylim(len(labels) - 0.4, -0.6)
        figure.suptitle(f"{mode}: median, smallest and largest of all rounds; an arrow is never; smaller is better")
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "fleet"}):  # text as text, and the same file each time
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        return True


def _mark(axis: Any, place: int, values: Sequence[float], *, first: bool) -> None:
    if not values:
        return
    finite = [value for value in values if math.isfinite(value)]
    colour = "C3" if first else "C0"
    if not math.isfinite(median(values)):
        axis.annotate(
            "never →", (0.98, place), xycoords=("axes fraction", "data"), ha="right", va="center", color=colour
        )
    else:
        axis.plot([median(values)], [place], "o", color=colour)
    if finite:
        axis.plot([min(finite), max(finite)], [place, place], color=colour, linewidth=3, alpha=0.4)


def _markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
