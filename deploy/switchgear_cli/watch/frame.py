"""One frame of ``switchgear watch``: how many circuits are in which state, the broken ones first, and the last changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from switchgear_cli.reads import problems, tables
from switchgear_cli.reads.client import ApiClient
from switchgear_cli.reads.formats import STATE_STYLES, count
from switchgear_cli.up.view import transition_table, transitions
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.visible import escaped

WORST_FIRST: Final = ("forced_open", "open", "half_open", "metrics_only", "disabled", "closed")
CHANGES: Final = 8
_NEVER_READ: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The API's last answer, and since when it is silent.

    Attributes:
        answer: As of ``GET /v1/circuits``; empty before the first.
        history: The newest records of all circuits.
        at: When they were read.
        problem: Why the API can't be read now; empty if it can.
    """

    answer: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    at: datetime = _NEVER_READ
    problem: str = ""


def look(api: ApiClient, before: LastAnswer, *, now: datetime | None = None) -> LastAnswer:
    """Read the API once. If that fails, return what was seen before, with the problem."""
    try:
        answer, history = api.circuits(), api.circuit_history(limit=5 * CHANGES)["history"]
    except SwitchgearError as error:
        return replace(before, problem=str(error))
    return LastAnswer(answer, tuple(history), now or datetime.now(UTC))


def frame(
    url: str, seen: LastAnswer, *, now: datetime | None = None, footer: str = "", most: int | None = None
) -> RenderableType:
    """Return the frame.

    Args:
        url: The API's address.
        seen: What it last answered.
        now: The present time.
        footer: The last line.
        most: Circuits to lay out, those that fit on the terminal. None: all.
    """
    now = now or datetime.now(UTC)
    left_out = 0
    parts: list[RenderableType] = [_head(url, seen, now)]
    if seen.answer:
        circuits = worst_first(seen.answer["circuits"])
        laid_out = circuits[:most]
        left_out = len(circuits) - len(laid_out)
        parts += ["", tables.circuits({**seen.answer, "circuits": laid_out, "problems": ()})]
        changes = transitions(seen.history)[:CHANGES]
        if changes:
            parts += ["", Text("Last changes", style="bold"), transition_table(changes)]
    return Cropped(Group(*parts), Text(footer, style="dim") if footer else None, left_out)


def worst_first(circuits: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the circuits in the order of their states, those that changed last first."""

    def place(circuit: Mapping[str, Any]) -> tuple[int, float, str]:
        state = circuit["state"]
        changed = datetime.fromisoformat(circuit["changed_at"]).timestamp()
        rank = WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)
        recovers = state == "closed" and circuit.get("admitted_share", 1) < 1
        return (rank - recovers, -changed, circuit["circuit_id"])

    return sorted(circuits, key=place)


class Cropped:
    """A renderable that is cut to the terminal's height. Its last line says that something is left out.

    Args:
        body: What is cut. In a pipe, or without a height, nothing is.
        footer: The line below it, which stays.
        left_out: Circuits that the body doesn't have.
    """

    def __init__(self, body: RenderableType, footer: Text | None, left_out: int = 0) -> None:
        self._body = body
        self._left_out = left_out
        self._footer = footer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the body out, and cut it; rich calls this."""
        if self._footer is None:
            yield self._body
            return
        lines = console.render_lines(self._body, options.update(height=None), pad=False)
        room = max(1, options.max_height - 1)
        more = ""
        if self._left_out:
            more, lines = f"over {count(self._left_out)} more circuits", lines[: room - 1]
        elif len(lines) > room:
            more, lines = f"{len(lines) - room + 1} more lines", lines[: room - 1]
        for line in lines:
            yield from line
            yield Segment.line()
        if more:
            yield Text(
                f"… {more}: make the terminal higher, or see `switchgear circuits`.",
                style="dim",
                no_wrap=True,
            )
        self._footer.no_wrap = True
        self._footer.end = ""
        yield self._footer


def _head(url: str, seen: LastAnswer, now: datetime) -> RenderableType:
    title = Text.assemble(("Switchgear", "bold"), f"  {url}  ", (f"{now:%H:%M:%S}Z", "dim"))
    lines: list[RenderableType] = [title]
    if seen.problem:
        age_s = (now - seen.at).total_seconds()
        old = f" What you see is {age_s:.0f} s old." if seen.answer else ""
        lines.append(Text(f"Disconnected. {escaped(seen.problem)}{old}", style="bold red"))
    lines += problems.lines(seen.answer.get("problems", ()), now.isoformat())
    if seen.answer:
        lines.append(_counts(seen.answer["circuits"]))
    return Group(*lines)


def _counts(circuits: Iterable[Mapping[str, Any]]) -> Text:
    states = Counter(str(circuit["state"]) for circuit in circuits)
    text = Text()
    for name in WORST_FIRST:
        if states[name] or name in {"open", "half_open", "closed"}:
            text.append(
                f"{count(states[name])} {name.replace('_', ' ')}  ", style=STATE_STYLES[name] if states[name] else "dim"
            )
    return text
