"""Whatever a command prints, by whatever way, nothing that is unseen reaches its reader."""

import io
import json
import logging
import sys
from datetime import UTC, datetime

import pytest
import structlog
from rich.console import Console
from rich.live import Live
from rich.text import Text

from switchgear_api.operate.command_result import CommandResult
from switchgear_cli.logs import configure_logging
from switchgear_cli.main import run
from switchgear_cli.reads import output
from switchgear_cli.reads.responsive_table import ResponsiveTable, name
from switchgear_cli.terminal import SafeStream, safe_output, styled, terminal_console
from switchgear_cli.up.view import LineView, TransitionLine, transition_line
from switchgear_schemas.command import Command
from switchgear_schemas.settings import load_settings
from tests.support.table import table
from tests.support.unseen import HOSTILE, unseen


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_what_is_printed_is_escaped_and_lines_stay_lines():
    written = io.StringIO()
    print(HOSTILE, "\tb\n", file=SafeStream(written))
    assert not unseen(written.getvalue()) - {"\t"}
    assert written.getvalue().endswith("\tb\n\n")


def test_a_lone_surrogate_can_be_printed_where_the_stream_could_not_encode_it():
    raw = io.BytesIO()
    stream = SafeStream(io.TextIOWrapper(raw, encoding="utf-8"))
    print("\ud800", file=stream, flush=True)
    assert raw.getvalue() == b"\\ud800\n"


def test_our_own_colours_reach_a_terminal_and_untrusted_ones_do_not(monkeypatch):
    written = Terminal()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    table = ResponsiveTable(name("tool"))
    table.add(f"x{HOSTILE}")
    with safe_output():
        output.show(table)
        print("\x1b[31mred")
    assert "\x1b[1m" in written.getvalue()
    assert "\x1b[2J" not in written.getvalue()
    assert "\x1b[31m" not in written.getvalue()
    assert not unseen(written.getvalue()) - {"\x1b"}


def test_a_live_display_moves_the_cursor_and_its_texts_do_not():
    written = Terminal()
    console = Console(file=styled(written), force_terminal=True, width=200)
    with Live(Text("one"), console=console, auto_refresh=False) as live:
        live.update(Text("two \r\u202e"), refresh=True)
    assert "\x1b[2K" in written.getvalue()
    assert "\u202e" not in written.getvalue()
    assert " \r" not in written.getvalue()


@table("stray", ["a\rb", "a\x1b]0;title\x07b", "a\x1bPb\x1b\\", "a\x1bcb", "\x9b2J", "a\r\x1b"])
def test_other_commands_to_a_terminal_are_escaped_even_where_colours_pass(stray):
    written = io.StringIO()
    styled(written).write(stray)
    assert not unseen(written.getvalue())


def test_safe_streams_are_taken_off_again_and_never_doubled():
    before = sys.stdout, sys.stderr
    with safe_output():
        inner = sys.stdout, sys.stderr
        with safe_output():
            assert (sys.stdout, sys.stderr) == inner
        assert isinstance(sys.stdout, SafeStream)
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [HOSTILE],
        ["tools", f"--{HOSTILE}"],
        ["policy", "check", f"{HOSTILE}.toml"],
        ["policy", "show", HOSTILE, "--no-live"],
        ["policy", "show", HOSTILE, "--no-live", "--json"],
        ["policy", "set", HOSTILE, "x=1"],
        ["emit", HOSTILE, "--dry-run"],
        ["replay", HOSTILE],
        ["tool", "a", "--api-url", f"http://{HOSTILE}"],
        ["dead", "list", "--bootstrap-servers", HOSTILE],
    ],
)
def test_errors_that_quote_the_command_line_are_escaped(arguments, capsys):
    run(arguments)
    captured = capsys.readouterr()
    assert not unseen(captured.out + captured.err)


KEY = "a\u202eb\u200bc\x1bd"


def test_keys_of_a_policy_file_are_escaped_in_its_errors(tmp_path, capsys):
    file = tmp_path / "p.toml"
    file.write_text(f"[default]\n{json.dumps(KEY)} = 1\n")
    assert run(["policy", "check", str(file)]) == 1
    assert "unknown key a\\u202eb\\u200bc\\u001bd" in (printed := capsys.readouterr().err)
    assert not unseen(printed)


@pytest.mark.slow
def test_refused_lines_of_a_history_are_escaped(tmp_path, capsys):
    file = tmp_path / "h.jsonl"
    file.write_text(json.dumps({"tool_name": HOSTILE, "status": HOSTILE}, ensure_ascii=False) + "\n")
    run(["emit", str(file), "--dry-run"])
    run(["replay", str(file)])
    captured = capsys.readouterr()
    assert not unseen(captured.out + captured.err)


@table("outcome", ["applied", "sent", "refused", "unconfirmed", "unchanged"])
def test_what_became_of_a_command_is_one_line_without_anything_unseen(outcome):
    command = Command(tool_name=HOSTILE + "\nx", verb="close", actor="ada")
    printed = CommandResult(command, outcome, None, f"because\n{HOSTILE}").sentence()
    assert not unseen(printed)
    assert "\n" not in printed


def test_a_transition_of_the_live_view_is_escaped():
    written = io.StringIO()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    view = LineView(Console(file=written, width=500))
    view.say(transition_line(TransitionLine(at=at, tool_name=HOSTILE, previous="", state="open", why=HOSTILE)))
    assert not unseen(written.getvalue())


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_log_line_holds_nothing_unseen_and_stays_one_line(log_format, terminal, capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    configure_logging(load_settings(log_format=log_format))
    structlog.get_logger().warning(f"dead letter {HOSTILE}", tool=f"{HOSTILE}\n2026 [error] forged", names=[HOSTILE])
    logging.getLogger("aiohttp").error("from %s", HOSTILE + "\nforged")
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 2
    coloured = terminal and log_format == "console"
    assert not unseen(printed) - ({"\x1b"} if coloured else set())
    assert "\x1b[2J" not in printed


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_holds_nothing_unseen(log_format, capsys):
    configure_logging(load_settings(log_format=log_format))
    try:
        int(HOSTILE)
    except ValueError:
        structlog.get_logger().exception("it failed")
    assert not unseen(capsys.readouterr().err)


def test_what_is_drawn_in_place_moves_the_cursor_and_what_is_printed_meanwhile_can_not_ring(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", drawn := Terminal())
    with safe_output(), Live("frame", console=terminal_console(), auto_refresh=False) as live:
        live.update("next", refresh=True)
        print("a\x07b")
    text = drawn.getvalue()
    assert "\x1b[2K" in text  # the frame before is replaced
    assert "u001b" not in text
    assert "\x07" not in text
