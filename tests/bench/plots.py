"""Plots of some tables, written beside them if matplotlib is installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

VOLUMES: Final = ("0.1", "10", "1000")


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the heading and the rows of each Markdown table of a text."""
    block: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip("|").split("|")])
        elif block:
            yield block[0], block[2:]
            block = []


def number(cell: str) -> float | None:
    """Return the first number of a cell; None if there is none. ``>n`` is n, so the curve ends at the last attempt."""
    found = re.search(r"\d[\d,]*\.?\d*", cell)
    return None if found is None else float(found.group().replace(",", ""))


def draw(name: str, text: str, out: Path) -> Path | None:
    """Draw the plot of a bench. Return None if it has none, or if matplotlib isn't installed."""
    drawings = {"benefit": _benefit, "breaker_defaults": _breaker_defaults, "sink_memory": _sink_memory}
    drawing = drawings.get(name)
    if drawing is None:
        return None
    try:
        from matplotlib import rc_context  # noqa: PLC0415 - only here, and it need not be installed
        from matplotlib.figure import Figure  # noqa: PLC0415 - as above
    except ImportError:
        return None
    figure = drawing(Figure, list(tables(text)))
    kind, metadata = ("svg", {"Date": None}) if drawing is _benefit else ("png", None)
    path = out / f"{name}.{kind}"
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):  # the same figures make the same file
        figure.savefig(path, dpi=110, metadata=metadata)
    return path


def _benefit(new: Callable[..., Any], found: list[tuple[list[str], list[list[str]]]]) -> Any:
    """Tasks done and billed tokens by the reaction of the agents: the last table."""
    heading, rows = found[-1]
    reactions = list(dict.fromkeys(cells[0] for cells in rows))
    figure = new(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for column, axis in zip((2, 3), axes, strict=True):
        for place, arm in enumerate(dict.fromkeys(cells[1] for cells in rows)):
            drawn = [(number(cells[column]), reactions.index(cells[0])) for cells in rows if cells[1] == arm]
            axis.plot(*zip(*drawn, strict=True), marker="o", linestyle=":", label=arm, color=f"C{place}")
        axis.set(xlabel=heading[column], xlim=(0, None), yticks=range(len(reactions)), yticklabels=reactions)
        axis.grid(axis="y", alpha=0.3)
    axes[0].invert_yaxis()
    axes[1].legend()
    return figure


def _sink_memory(new: Callable[..., Any], found: list[tuple[list[str], list[list[str]]]]) -> Any:
    """Resident memory by rows stored."""
    figure = new(figsize=(9, 5), layout="constrained")
    axis = figure.subplots()
    heading, rows = found[0]
    for column, name in enumerate(heading[1:], start=1):
        axis.plot([number(cells[0]) for cells in rows], [number(cells[column]) for cells in rows], label=name)
    axis.set(xlabel="rows stored", ylabel="resident memory, MiB", ylim=(0, None))
    axis.legend()
    return figure


def _breaker_defaults(new: Callable[..., Any], found: list[tuple[list[str], list[list[str]]]]) -> Any:
    """Calls between false opens and to open, by share of failures."""
    figure = new(figsize=(15, 8), layout="constrained")
    axes = figure.subplots(len(found), len(VOLUMES), squeeze=False)
    titles = ("calls between opens", "calls to open after a break")
    for row, (heading, rows) in enumerate(found):
        shares = [float(cell.rstrip("%")) for cell in heading[2:]]
        colours = {rule: f"C{place}" for place, rule in enumerate(dict.fromkeys(cells[0] for cells in rows))}
        for column, volume in enumerate(VOLUMES):
            axis = axes[row][column]
            for rule, calls_s, *cells in rows:
                points = [(share, number(cell)) for share, cell in zip(shares, cells, strict=True)]
                drawn = [(share, value) for share, value in points if value is not None]
                if calls_s == volume and drawn:
                    width = 3 if "Switch" in rule else 1
                    axis.plot(*zip(*drawn, strict=True), marker="o", label=rule, color=colours[rule], linewidth=width)
            axis.set(yscale="log", xlabel="% of calls that fail", ylabel=titles[row], title=f"{volume} calls/s")
    axes[0][0].legend()
    return figure
