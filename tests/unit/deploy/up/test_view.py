"""The live view: a frame on a terminal, lines elsewhere; what a person sees is what the system said."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from switchgear_cli.up.supervisor import Phase
from switchgear_cli.up.view import (
    ComponentStatus,
    LineView,
    LiveView,
    Readings,
    TransitionLine,
    UpStatus,
    component_line,
    frame,
    make_view,
    transition_line,
)

KAFKA = ComponentStatus("kafka", Phase.RUNNING, 11, 0, "127.0.0.1:9092", "")
SINK = ComponentStatus("sink", Phase.WAITING, None, 2, "http://127.0.0.1:8620", "SIGKILL: last words [red]")
OPENED = TransitionLine(
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "mcp:a:b", "closed", "open", "8 of the last 8 calls failed"
)
CLOSED = TransitionLine(
    datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC), "mcp:a:b", "half_open", "closed", "the probe call succeeded"
)
NEWEST = (datetime.now(UTC) - timedelta(days=3)).isoformat()
STATUS = UpStatus(
    api_url="http://127.0.0.1:8620",
    gateway_url="http://127.0.0.1:8622",
    bootstrap="127.0.0.1:9092",
    data_dir="/data",
    demo=True,
    components=(KAFKA, SINK),
    readings=Readings(circuits={"open": 2, "closed": 9}, stored=12_345, newest_at=NEWEST, transitions=(CLOSED, OPENED)),
    ready_s=4.56,
)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120, force_terminal=False)


def drawn(status):
    console = Console(file=io.StringIO(), width=120)
    console.print(frame(status))
    return console.file.getvalue()


def test_the_frame_shows_addresses_components_circuits_and_the_last_changes():
    text = drawn(STATUS)
    for part in (
        "demo traffic",
        "ready in 4.6 s",
        "http://127.0.0.1:8620",
        "kafka",
        "running",
        "11",
        "restarting",
        "SIGKILL: last words [red]",
        "2 open",
        "0 half-open",
        "9 closed",
        "12,345 events stored, the newest 3 d ago",
        "closed → open",
        "8 of the last 8 calls failed",
        "half_open → closed",
        "Ctrl-C",
    ):
        assert part in text
    assert text.index("half_open → closed") < text.index("closed → open")


def test_the_frame_says_what_starts_before_the_system_is_ready():
    text = drawn(replace(STATUS, ready_s=None, doing="Starting …"))
    assert "Starting …" in text
    assert "events stored" not in text


def test_an_api_that_does_not_answer_is_shown_in_place_of_the_counts():
    text = drawn(replace(STATUS, readings=Readings(problem="The API does not answer (ConnectError).")))
    assert "The API does not answer" in text
    assert "closed" not in text


def test_a_terminal_gets_the_live_view_and_a_pipe_gets_lines(console):
    assert isinstance(make_view(console), LineView)
    assert isinstance(make_view(Console(file=io.StringIO(), force_terminal=True)), LiveView)


def test_lines_report_each_change_once(console):
    view = LineView(console)
    view.show(replace(STATUS, components=(KAFKA,)))
    view.show(replace(STATUS, components=(KAFKA,)))
    view.show(replace(STATUS, components=(replace(KAFKA, phase=Phase.WAITING, pid=None, problem="SIGKILL"),)))
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if line.startswith("kafka")] == [
        "kafka running, pid 11, 127.0.0.1:9092",
        "kafka restarting, 127.0.0.1:9092 (SIGKILL)",
    ]


def test_lines_report_transitions_in_their_order_and_once(console):
    view = LineView(console, since=OPENED.at)
    view.show(replace(STATUS, components=(), readings=Readings(transitions=(OPENED,))))
    view.show(replace(STATUS, components=(), readings=Readings(transitions=(CLOSED, OPENED))))
    view.show(replace(STATUS, components=(), readings=Readings(transitions=(CLOSED, OPENED))))
    assert console.file.getvalue().splitlines() == [transition_line(OPENED), transition_line(CLOSED)]


def test_lines_do_not_report_what_happened_in_an_earlier_run(console):
    view = LineView(console, since=CLOSED.at)
    view.show(replace(STATUS, components=(), readings=Readings(transitions=(CLOSED, OPENED))))
    assert console.file.getvalue().splitlines() == [transition_line(CLOSED)]


def test_lines_report_when_the_api_goes_and_comes(console):
    view = LineView(console, since=CLOSED.at)
    for problem in ("", "The API does not answer.", "The API does not answer.", ""):
        view.show(replace(STATUS, components=(), readings=Readings(problem=problem)))
    assert console.file.getvalue().splitlines() == ["The API does not answer.", "The API answers again."]


def test_a_live_view_can_print_a_line_that_stays():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    view = LiveView(console)
    view.start()
    view.show(STATUS)
    view.say("ready in 4.6 s")
    view.stop()
    assert "ready in 4.6 s" in console.file.getvalue()


def test_a_live_view_draws_what_changed_at_once_and_the_same_status_once_a_second():
    clock = [0.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    view = LiveView(console, clock=lambda: clock[0])
    view.start()
    drawn = []
    other = replace(STATUS, doing="Stopping …")
    for clock[0], status in ((0.0, STATUS), (0.25, STATUS), (0.75, STATUS), (0.8, other), (1.75, other), (1.85, other)):
        before = len(console.file.getvalue())
        view.show(status)
        drawn.append(len(console.file.getvalue()) > before)
    view.stop()
    assert drawn == [True, False, False, True, False, True]


def test_a_component_line_says_where_and_why():
    assert component_line(SINK) == "sink restarting, http://127.0.0.1:8620 (SIGKILL: last words [red])"


def test_a_first_transition_has_no_previous_state():
    assert " new → open" in transition_line(replace(OPENED, previous=""))


def test_a_line_to_copy_is_not_broken_in_a_narrow_terminal():
    line = "export SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092"
    console = Console(file=io.StringIO(), width=30, force_terminal=True, legacy_windows=False)
    view = make_view(console)
    view.start()
    view.show(STATUS)
    view.say(line)
    view.stop()
    assert f"{line}\n" in console.file.getvalue()


def test_a_transition_line_gives_the_cause():
    assert transition_line(OPENED).endswith("mcp:a:b closed → open: 8 of the last 8 calls failed")
    assert transition_line(replace(OPENED, why="")).endswith("mcp:a:b closed → open")


def test_a_long_reason_takes_one_line_of_the_frame():
    long = replace(OPENED, why="9 of 12 calls within 60 s failed (75 %; the limit is 50 %), and so on " * 4)
    text = drawn(replace(STATUS, readings=Readings(transitions=(long,))))
    (line,) = [line for line in text.splitlines() if "mcp:a:b" in line]
    assert "9 of 12 calls" in line
    assert len(line) <= 120
    assert text.count("of 12 calls") == line.count("of 12 calls")


WORKER_GONE = {
    "component": "worker", "level": "bad", "what": "No worker runs.", "since": None, "means": "Circuits stand.", "todo": "Start one.",
}  # fmt: skip


def test_what_does_not_run_is_the_first_line_of_the_frame_and_says_since_when_why_and_what_it_means():
    down_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    sink = replace(SINK, problem="SIGKILL", down_at=down_at)
    status = replace(STATUS, components=(KAFKA, sink), readings=Readings(problems=(WORKER_GONE,)))
    console = Console(file=io.StringIO(), width=220)
    console.print(frame(status))
    first, second = console.file.getvalue().splitlines()[:2]
    assert first.rstrip() == (
        f"sink is restarting, since {down_at.astimezone():%H:%M:%S} (SIGKILL). Decisions go on. The API and the console are away until it"
        " runs. Its log: /data/logs/sink.log."
    )
    assert second.rstrip() == "No worker runs. Circuits stand. Start one."


def test_a_component_that_starts_for_the_first_time_is_not_away():
    status = replace(STATUS, ready_s=None, components=(replace(SINK, down_at=OPENED.at),))
    assert drawn(status).startswith("Switchgear")


def test_lines_say_what_goes_wrong_once_and_when_it_is_over(console):
    view = LineView(console)
    for wrong in ((), (WORKER_GONE,), (WORKER_GONE,), (), ()):
        view.show(replace(STATUS, components=(), readings=Readings(problems=wrong)))
    assert console.file.getvalue().splitlines() == [
        "No worker runs. Circuits stand. Start one.",
        "Every part of the system does its work again.",
    ]
