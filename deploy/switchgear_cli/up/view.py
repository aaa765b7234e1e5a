"""Draws a status: one live frame on a terminal, lines of what changed elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console
from rich.live import Live

from switchgear_cli.up.frame import frame
from switchgear_cli.up.status import ComponentStatus, Status, TransitionLine
from switchgear_cli.up.supervision import Phase
from switchgear_schemas.visible import escaped


class View(Protocol):
    """Shows statuses from ``start`` to ``stop``."""

    def start(self) -> None:
        """Begin."""

    def show(self, status: Status) -> None:
        """Show the present status."""

    def say(self, line: str) -> None:
        """Print a line that stays."""

    def stop(self) -> None:
        """End; what was said stays on the terminal."""


def make_view(console: Console) -> View:
    """The live view on a terminal, lines elsewhere (a pipe, a log, CI)."""
    return LiveView(console) if console.is_terminal else LineView(console)


class LiveView:
    """One frame, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def start(self) -> None:
        """Begin drawing."""
        self._live.start()

    def show(self, status: Status) -> None:
        """Redraw."""
        self._live.update(frame(status), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the frame."""
        self._live.console.print(escaped(line), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Take the frame away."""
        self._live.stop()


class LineView:
    """A line for each thing that changed.

    Args:
        console: Where to.
        since: Transitions before this are of an earlier run.
    """

    def __init__(self, console: Console, since: datetime | None = None) -> None:
        self._console = console
        self._since = since or datetime.now(UTC)
        self._phases: dict[str, Phase] = {}
        self._seen: TransitionLine | None = None
        self._problem = ""

    def start(self) -> None:
        """Nothing to begin."""

    def show(self, status: Status) -> None:
        """Print what is new since the last status."""
        for component in status.components:
            if self._phases.get(component.name) is not component.phase:
                self._phases[component.name] = component.phase
                self.say(component_line(component))
        for transition in reversed(_newer(status.readings.transitions, self._seen, self._since)):
            self.say(transition_line(transition))
            self._seen = transition
        if status.ready_s is not None and status.readings.problem != self._problem:
            self._problem = status.readings.problem
            self.say(self._problem or "The API answers again.")

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(escaped(line), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Nothing to end."""


def _newer(transitions: Iterable[TransitionLine], seen: TransitionLine | None, since: datetime) -> list[TransitionLine]:
    """Those that come before ``seen`` in a list that begins with the newest, and not before ``since``."""
    found: list[TransitionLine] = []
    for transition in transitions:
        if transition == seen or transition.at < since:
            break
        found.append(transition)
    return found


def component_line(component: ComponentStatus) -> str:
    """``worker-1 running, pid 71, http://127.0.0.1:8621``."""
    parts = [f"{component.name} {component.phase.value}"]
    if component.pid is not None:
        parts.append(f"pid {component.pid}")
    if component.address:
        parts.append(component.address)
    line = ", ".join(parts)
    return f"{line} ({component.problem})" if component.problem else line


def transition_line(transition: TransitionLine) -> str:
    """``12:00:01 mcp:a:b closed → open: 5 calls in a row failed (the limit is 5)``."""
    why = f": {transition.why}" if transition.why else ""
    at = transition.at.astimezone().strftime("%H:%M:%S")
    return f"{at} {transition.tool_name} {transition.previous or 'new'} → {transition.state}{why}"
