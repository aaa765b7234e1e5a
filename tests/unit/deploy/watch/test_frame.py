"""A frame of `switchgear watch`: the broken circuits first, and nothing beyond the terminal's height."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from switchgear_cli.reads import tables
from switchgear_cli.reads.client import ApiUnavailableError
from switchgear_cli.watch.frame import LastAnswer, frame, look, worst_first

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def circuit(name: str, state: str, **fields: Any) -> dict[str, Any]:
    return {
        "circuit_id": name, "tool_name": name, "state": state, "previous_state": "closed", "version": 3, "scope": "tool", "family": None,
        "changed_at": "2026-03-01T11:59:00Z", "open_until": None, "opens": 1, "last_opened_at": "2026-03-01T11:59:00Z", "last_closed_at": None,
        "admitted_share": 1.0, "counts": {}, "cause": {"rule": "command", "actor": "ada", "reason": "drill"},
    } | fields  # fmt: skip


CIRCUITS = [
    circuit("calm", "closed"),
    circuit("probing", "half_open"),
    circuit("older", "open", changed_at="2026-03-01T11:00:00Z"),
    circuit("down", "open", open_until="2026-03-01T12:00:30Z"),
    circuit("measured", "metrics_only"),
    circuit("back", "closed", admitted_share=0.25),
]
SEEN = LastAnswer({"circuits": CIRCUITS, "checked_at": NOW.isoformat()}, tuple(CIRCUITS[3:4]), NOW)


def text_of(
    seen: LastAnswer,
    *,
    width: int = 100,
    height: int | None = None,
    footer: str = "",
    color: bool = False,
    most: int | None = None,
) -> str:
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=color, color_system="standard" if color else None
    )
    console.print(frame("http://api", seen, now=NOW, footer=footer, most=most), highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_circuits_are_ordered_by_how_bad_their_state_is_and_then_by_the_last_change():
    assert [each["circuit_id"] for each in worst_first(CIRCUITS)] == [
        "down",
        "older",
        "probing",
        "measured",
        "back",
        "calm",
    ]


def test_a_frame_counts_the_states_and_says_why_since_when_and_when_the_next_probe_is():
    shown = text_of(SEEN)
    head, counts = shown.splitlines()[:2]
    assert head == "Switchgear  http://api  12:00:00Z"
    assert counts.split("  ")[:5] == ["2 open", "1 half open", "1 metrics only", "2 closed", ""]
    (row,) = [line for line in shown.splitlines() if line.startswith("down ")]
    assert "1 min ago" in row or "60 s ago" in row
    assert "ada" in row
    assert "; probe in 30 s" in text_of(SEEN, width=160)
    assert "Last changes" in shown


@pytest.mark.slow
def test_a_frame_is_never_higher_than_the_terminal_and_says_how_much_is_left_out():
    many = replace(SEEN, answer={**SEEN.answer, "circuits": [circuit(f"tool-{n}", "open") for n in range(50)]})
    lines = text_of(many, height=20, footer="q quits").splitlines()
    assert len(lines) == 20
    assert lines[-1] == "q quits"
    assert lines[-2].startswith("… ")
    assert len(text_of(many).splitlines()) > 50


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_a_frame_fits_a_narrow_terminal(width):
    lines = text_of(SEEN, width=width, height=40, footer="q quits").splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("down ") for line in lines)


def test_no_color_leaves_the_words_and_no_escape_codes(monkeypatch):
    assert "\x1b[" in text_of(SEEN, color=True)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = text_of(SEEN, color=True)
    assert "\x1b[3" not in shown
    assert "2 open" in shown


def test_an_api_that_does_not_answer_is_said_with_the_age_of_what_is_shown():
    def down() -> dict[str, Any]:
        raise ApiUnavailableError("The API at http://api did not answer in time.", hint="Start it.")

    first = look(SimpleNamespace(circuits=down), LastAnswer())  # type: ignore[arg-type]
    assert text_of(first).splitlines()[1] == "Disconnected. The API at http://api did not answer in time. Start it."
    later = look(SimpleNamespace(circuits=down), replace(SEEN, at=datetime(2026, 3, 1, 11, 59, 48, tzinfo=UTC)))  # type: ignore[arg-type]
    shown = " ".join(text_of(later, width=200).split())
    assert "Start it. What you see is 12 s old." in shown
    assert "2 open" in shown


def test_names_of_tools_cannot_write_to_the_terminal():
    evil = replace(SEEN, answer={**SEEN.answer, "circuits": [circuit("a\x1b[2Jb", "open")]}, history=())
    assert "\x1b" not in text_of(evil)


def test_of_many_circuits_only_those_that_fit_are_laid_out_and_all_are_counted():
    many = LastAnswer(
        {"circuits": [circuit(f"t{n}", "closed") for n in range(500)], "checked_at": NOW.isoformat()}, (), NOW
    )
    lines = text_of(many, height=12, footer="q quits", most=12).splitlines()
    assert len(lines) == 12
    assert "500 closed" in lines[1]
    assert lines[-2].startswith("… over 488 more circuits")


WORKER_GONE = {
    "component": "worker", "level": "bad", "what": "No worker runs.", "since": "2026-03-01T05:12:00.000Z",
    "means": "Circuits have not changed since then. Each process decides alone.", "todo": "Start one: switchgear worker.",
}  # fmt: skip
LINE = (
    "No worker runs, since 05:12:00Z. Circuits have not changed since then. Each process decides alone."
    " Start one: switchgear worker."
)


def test_what_does_not_work_is_above_the_counts_and_said_once():
    wrong = replace(SEEN, answer={**SEEN.answer, "problems": [WORKER_GONE]})
    shown = text_of(wrong, width=200).splitlines()
    assert shown[1] == LINE
    assert shown[2].startswith("2 open")
    assert sum("No worker runs" in line for line in shown) == 1


def test_escape_characters_in_what_a_process_says_are_shown_as_text():
    wrong = replace(SEEN, answer={**SEEN.answer, "problems": [WORKER_GONE | {"what": "worker-1: \x1b[2J[red]x."}]})
    assert "\x1b" not in text_of(wrong, color=False)
    assert "[red]x" in text_of(wrong, width=200)


def test_circuits_are_listed_below_what_does_not_work():
    console = Console(file=io.StringIO(), width=200)
    console.print(tables.circuits({**SEEN.answer, "problems": [WORKER_GONE]}), highlight=False)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].rstrip() == LINE
    assert any(line.startswith("down ") for line in lines)
