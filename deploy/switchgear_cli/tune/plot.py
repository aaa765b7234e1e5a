"""Draw the trade-off: what refusing costs against what is wasted, one dot for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from switchgear_cli.tune.report import front

if TYPE_CHECKING:
    from switchgear_cli.tune.study import Study

SUFFIXES: Final = (".svg", ".png")
_MARKS: Final = {"present": ("s", "tab:red"), "default": ("^", "tab:orange"), "best": ("*", "tab:green")}


def draw_trade_off(found: Study, path: Path) -> None:
    """Write the plot. Its suffix is one of :data:`SUFFIXES`. The same search gives the same SVG."""
    with mpl.rc_context({"svg.hashsalt": "switchgear", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        axes = figure.subplots(1, 2)
        for axis, part, title in zip(
            axes, ("tuned", "judged"), ("first half: tuned", "second half: judged"), strict=True
        ):
            _panel(axis, found, part)
            axis.set_title(title)
        axes[0].legend(loc="upper right")
        figure.suptitle(f"switchgear tune {found.glob}: {len(found.tried)} policies")
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axis: Any, found: Study, part: str) -> None:
    costs = [getattr(each, part) for each in found.tried]
    across, up = [cost.refusing_usd for cost in costs], [cost.wasted_usd for cost in costs]
    axis.scatter(across, up, s=14, color="0.7", label="a candidate")
    line = front(found, part)
    axis.plot([across[at] for at in line], [up[at] for at in line], color="0.4", linewidth=1, label="least of both")
    for (name, (marker, colour)), place in zip(_MARKS.items(), (0, 1, found.best), strict=True):
        axis.scatter([across[place]], [up[place]], s=110, marker=marker, color=colour, label=name, zorder=3, alpha=0.85)
    axis.set(xlabel="refused good calls and delay, USD", ylabel="wasted, USD")
    axis.set_xlim(left=0, right=max(1e-6, _limit(across, up)))
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, color="0.9")


def _limit(across: list[float], up: list[float]) -> float:
    """Return how far to show: candidates that refuse for more than twice the largest waste are of no interest."""
    return min(max(across), 2 * max(up)) * 1.05 if max(up) > 0 else max(across) * 1.05
