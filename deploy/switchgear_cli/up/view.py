"""Show the status of ``switchgear up``: one live frame on a terminal, lines of changes elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from switchgear_cli.reads import problems
from switchgear_cli.reads.formats import ago, named, plain
from switchgear_cli.up.supervisor import Phase, Supervised
from switchgear_schemas.explain import explain
from switchgear_schemas.visible import escaped


class View(Protocol):
    """Shows statuses between :meth:`start` and :meth:`stop`."""

    def start(self) -> None:
        """Begin to draw."""

    def show(self, status: UpStatus) -> None:
        """Show the present status."""

    def say(self, line: str) -> None:
        """Print a line that stays."""

    def stop(self) -> None:
        """Stop drawing. Printed lines stay on the terminal."""


def make_view(console: Console) -> View:
    """Return the live view on a terminal, and lines elsewhere (a pipe, a log, CI)."""
    return LiveView(console) if console.is_terminal else LineView(console)


_REDRAW_S: Final = 1.0


class LiveView:
    """One frame, drawn in place: at once when something changes, else each second because it says how long ago things were.

    Args:
        console: The terminal.
        clock: Monotonic seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._clock = clock
        self._drawn: tuple[float, UpStatus] | None = None

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def show(self, status: UpStatus) -> None:
        """Draw the status, if it changed or was drawn a second ago."""
        now = self._clock()
        if self._drawn is not None and self._drawn[1] == status and now < self._drawn[0] + _REDRAW_S:
            return
        self._drawn = now, status
        self._live.update(frame(status), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the frame."""
        self._live.console.print(escaped(line), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Remove the frame."""
        self._live.stop()


class LineView:
    """Prints a line for each change.

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
        self._wrong: list[str] = []

    def start(self) -> None:
        """Do nothing."""

    def show(self, status: UpStatus) -> None:
        """Print what changed since the last status."""
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
        wrong = [problems.sentence(each) for each in status.readings.problems]
        for line in wrong:
            if line not in self._wrong:
                self.say(line)
        if self._wrong and not wrong:
            self.say("Every part of the system does its work again.")
        self._wrong = wrong

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(escaped(line), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Do nothing."""


def _newer(transitions: Iterable[TransitionLine], seen: TransitionLine | None, since: datetime) -> list[TransitionLine]:
    """Return the transitions before ``seen``, without those before ``since``. The list begins with the newest."""
    found: list[TransitionLine] = []
    for transition in transitions:
        if transition == seen or transition.at < since:
            break
        found.append(transition)
    return found


def component_line(component: ComponentStatus) -> str:
    """Return ``worker-1 running, pid 71, http://127.0.0.1:8621``."""
    parts = [f"{component.name} {component.phase.value}"]
    if component.pid is not None:
        parts.append(f"pid {component.pid}")
    if component.address:
        parts.append(component.address)
    line = ", ".join(parts)
    return f"{line} ({component.problem})" if component.problem else line


def transition_line(transition: TransitionLine) -> str:
    """Return ``12:00:01 mcp:a:b closed → open: 5 calls in a row failed (the limit is 5)``."""
    why = f": {transition.why}" if transition.why else ""
    at = transition.at.astimezone().strftime("%H:%M:%S")
    return f"{at} {transition.tool_name} {transition.previous or 'new'} → {transition.state}{why}"


_PHASE_COLOURS: Final = {
    Phase.RUNNING: "green",
    Phase.STARTING: "cyan",
    Phase.WAITING: "red",
    Phase.STOPPED: "bright_black",
}
STATE_COLOURS: Final = {"closed": "green", "half_open": "yellow", "open": "red"}
_LAST_TRANSITIONS: Final = 8


def frame(status: UpStatus) -> RenderableType:
    """Return the whole frame. What does not work is above everything."""
    parts: list[RenderableType] = [*_wrong(status), _head(status), _components(status.components)]
    if status.ready_s is not None:
        parts.extend([Text(""), _counts(status.readings), transition_table(status.readings.transitions)])
    parts.append(Text(status.doing or "Ctrl-C stops everything.", style="bright_black"))
    return Group(*parts)


_MEANS: Final = {
    "kafka": "Last known circuits hold for 5 minutes, and calls wait in the processes that made them.",
    "worker": "Circuits do not change until it runs, and each process decides alone.",
    "sink": "Decisions go on. The API and the console are away until it runs.",
    "gateway": "Its clients decide alone after 45 s.",
    "alerts": "Decisions go on. Nobody is told of outages until it runs.",
}
"""What it means that a component is away, by the beginning of its name."""


def _wrong(status: UpStatus) -> list[Text]:
    """Return a line for each component that does not run though it did before, and for each problem that the API knows."""
    if status.ready_s is None:
        return []
    away = [
        Text(_away(each, status.data_dir), style="bold red") for each in status.components if each.down_at is not None
    ]
    return [*away, *problems.lines(status.readings.problems)]


def _away(component: ComponentStatus, data_dir: str) -> str:
    kind = component.name.partition("-")[0]
    since = "" if component.down_at is None else f"{component.down_at.astimezone():%H:%M:%S}"
    why = f" ({component.problem})" if component.problem else ""
    means = f" {_MEANS[kind]}" if kind in _MEANS else ""
    return f"{component.name} is {component.phase.value}, since {since}{why}.{means} Its log: {data_dir}/logs/{component.name}.log."


def _head(status: UpStatus) -> RenderableType:
    title = Text("Switchgear", style="bold")
    if status.demo:
        title.append("  ").append(" demo traffic ", style="not bold black on yellow")
    if status.ready_s is not None:
        title.append(f"  ready in {status.ready_s:.1f} s", style="not bold bright_black")
    table = Table.grid(padding=(0, 2))
    table.add_row("API", Text(status.api_url, style=Style(link=status.api_url)))
    table.add_row("Gateway", Text(status.gateway_url, style=Style(link=status.gateway_url)))
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
    if readings.newest_at is not None:
        text.append(f", the newest {ago(readings.newest_at, None)}", style="bright_black")
    return text


def transition_table(transitions: Iterable[TransitionLine]) -> Table:
    """Return a table of the newest changes of state, a line each."""
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


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One component's line. ``down_at`` is when it died, until it is ready again."""

    name: str
    phase: Phase
    pid: int | None
    restarts: int
    address: str
    problem: str
    down_at: datetime | None = None

    @classmethod
    def of(cls, supervised: Supervised) -> ComponentStatus:
        """Return the line of a supervised component. It shows its last problem until the component runs again."""
        down = supervised.supervision.down_since
        component, supervision = supervised.component, supervised.supervision
        return cls(
            name=component.name,
            phase=supervision.phase,
            pid=component.pid,
            restarts=supervision.restarts,
            address=component.address,
            problem="" if supervision.phase is Phase.RUNNING else supervision.problem,
            down_at=None if down is None else datetime.now(UTC) - timedelta(seconds=time.monotonic() - down),
        )


@dataclass(frozen=True, slots=True)
class TransitionLine:
    """One change of a circuit's state."""

    at: datetime
    tool_name: str
    previous: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Readings:
    """The API's last answer. If ``problem`` says why the API could not be read, the rest is an earlier answer.

    ``problems`` is what the API knows not to work, as of ``GET /v1/circuits``.
    """

    circuits: Mapping[str, int] = field(default_factory=dict)
    listed: Mapping[str, Any] | None = field(default=None, repr=False)
    """The circuits as the API lists them. While they stay the same, the changes of state aren't asked for."""
    stored: int | None = None
    newest_at: str | None = None
    transitions: tuple[TransitionLine, ...] = ()
    problem: str = ""
    problems: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class UpStatus:
    """One frame of the view. ``ready_s`` is the seconds from start to ready, or None before that."""

    api_url: str
    gateway_url: str
    bootstrap: str
    data_dir: str
    demo: bool
    components: tuple[ComponentStatus, ...]
    readings: Readings
    ready_s: float | None
    doing: str = ""


_TIMEOUT_S: Final = 5.0
_HISTORY: Final = 40


def api_client(token: str | None) -> httpx.AsyncClient:
    """Return a client for all reads. A new one for each read would cost more than the read."""
    login = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, headers=login)


async def read(client: httpx.AsyncClient, api_url: str, before: Readings) -> Readings:
    """Read the API once.

    Args:
        client: As of :func:`api_client`.
        api_url: The API's address.
        before: What it said last: kept, with the problem, where it cannot be asked now.
    """
    try:
        return await _read(client, api_url, before)
    except httpx.HTTPStatusError as error:
        return replace(before, problem=f"The API answered {error.response.status_code}: {error.response.text[:200]}")
    except httpx.HTTPError as error:
        return replace(before, problem=f"The API does not answer ({type(error).__name__}).")
    except (LookupError, TypeError, ValueError) as error:
        return replace(before, problem=f"The API's answer is not as expected ({error}).")


async def _read(client: httpx.AsyncClient, api_url: str, before: Readings) -> Readings:
    answer = (await client.get(f"{api_url}/v1/circuits")).raise_for_status().json()
    listed, changes = answer["circuits"], before.transitions
    if listed != before.listed:
        asked = await client.get(f"{api_url}/v1/circuits", params={"history": "1", "limit": str(_HISTORY)})
        changes = tuple(transitions(asked.raise_for_status().json()["history"]))
    counted = (await client.get(f"{api_url}/v1/stored")).raise_for_status().json()
    return Readings(
        circuits=Counter(str(circuit["state"]) for circuit in listed.values()),
        listed=listed,
        stored=int(counted["events"]),
        newest_at=counted["newest_event_at"],
        transitions=changes,
        problems=tuple(answer.get("problems", ())),
    )


def transitions(history: Iterable[Mapping[str, Any]]) -> list[TransitionLine]:
    """Return the changes of state among circuit records, newest first.

    A record that only adds a lease is not a change.
    """
    return [
        TransitionLine(
            at=datetime.fromisoformat(record["changed_at"]),
            tool_name=named(record["tool_name"]),
            previous=record["previous_state"] or "",
            state=record["state"],
            why=plain(explain(record["cause"], record.get("counts"), state=record["state"])),
        )
        for record in history
        if record["state"] != record["previous_state"] and (record["previous_state"] or record["state"] != "closed")
    ]
