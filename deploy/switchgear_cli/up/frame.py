"""The live frame: a whole status drawn for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from switchgear_cli.up.status import ComponentStatus, Readings, Status, TransitionLine
from switchgear_cli.up.supervision import Phase

_PHASE_COLOURS: Final = {
    Phase.RUNNING: "green",
    Phase.STARTING: "cyan",
    Phase.WAITING: "red",
    Phase.STOPPED: "bright_black",
}
STATE_COLOURS: Final = {"closed": "green", "half_open": "yellow", "open": "red"}
_LAST_TRANSITIONS: Final = 8


def frame(status: Status) -> RenderableType:
    """The whole live view."""
    parts: list[RenderableType] = [_head(status), _components(status.components)]
    if status.ready_s is not None:
        parts.extend([Text(""), _counts(status.readings), _transitions(status.readings.transitions)])
    parts.append(Text(status.doing or "Ctrl-C stops everything.", style="bright_black"))
    return Group(*parts)


def _head(status: Status) -> RenderableType:
    title = Text("Switchgear", style="bold")
    if status.demo:
        title.append("  ").append(" demo traffic ", style="not bold black on yellow")
    if status.ready_s is not None:
        title.append(f"  ready in {status.ready_s:.1f} s", style="not bold bright_black")
    table = Table.grid(padding=(0, 2))
    table.add_row("API", Text(status.api_url, style=Style(link=status.api_url)))
    table.add_row("Kafka", status.bootstrap)
    table.add_row("Data", Text(status.data_dir))
    return Group(title, table)


def _components(components: Iterable[ComponentStatus]) -> Table:
    table = Table("component", "state", "pid", "restarts", "address", "", box=None, header_style="bright_black")
    for component in components:
        colour = _PHASE_COLOURS[component.phase]
        table.add_row(
            component.name,
            f"[{colour}]{component.phase.value}[/]",
            "" if component.pid is None else str(component.pid),
            str(component.restarts),
            component.address,
            Text(component.problem, style="red", overflow="ellipsis", no_wrap=True),
        )
    return table


def _counts(readings: Readings) -> Text:
    if readings.problem:
        return Text(readings.problem, style="red")
    text = Text("circuits  ")
    for state, colour in STATE_COLOURS.items():
        text.append(f"{readings.circuits.get(state, 0)} {state.replace('_', '-')}  ", style=colour)
    text.append(f"  {readings.stored:,} events stored" if readings.stored is not None else "")
    return text


def _transitions(transitions: Iterable[TransitionLine]) -> Table:
    table = Table.grid(padding=(0, 2))
    for transition in list(transitions)[:_LAST_TRANSITIONS]:
        table.add_row(
            Text(transition.at.astimezone().strftime("%H:%M:%S"), style="bright_black"),
            Text(transition.tool_name),
            Text(f"{transition.previous or 'new'} → ").append(
                transition.state, style=STATE_COLOURS.get(transition.state, "")
            ),
            Text(transition.why, style="bright_black", overflow="ellipsis", no_wrap=True),
        )
    return table
