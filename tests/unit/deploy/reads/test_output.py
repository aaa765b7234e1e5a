"""Where output goes: a terminal's width is kept, a pipe gets whole rows, and COLUMNS and NO_COLOR are obeyed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from switchgear_cli.main import run
from switchgear_cli.reads import output
from switchgear_cli.reads.responsive_table import ResponsiveTable, name, words
from tests.support.deep import some
from tests.support.limits import READY_S

LONG = "the upstream did not answer within thirty seconds " * 12
SHOW = (
    "from switchgear_cli.reads import output; from switchgear_cli.reads.responsive_table import *; from rich.text import Text;"
    "t = ResponsiveTable(name('tool'), words('why')); t.add('mcp:' + 'n' * 80, 'words ' * 60);"
    "t.add(Text('b', style='red'), 'short'); output.show(t)"
)


@pytest.fixture(autouse=True)
def no_width(monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)


def table(*tools: str) -> ResponsiveTable:
    found = ResponsiveTable(name("tool"), words("why"))
    for tool in tools:
        found.add(tool, LONG)
    return found


def test_a_row_that_is_piped_is_one_line_however_long(capsys):
    tools = ["mcp:" + "n" * 200, "b"]
    output.show(table(*tools))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["tool", *tools]
    assert all(line.endswith(LONG.strip()) for line in lines[1:])


def test_columns_are_aligned_beside_characters_that_take_two_places(capsys):
    columns = [{"name": "tool", "type": "String"}, {"name": "calls", "type": "UInt64"}]
    output.show_rows({"columns": columns, "rows": [["搜索", 5], ["mail", 10]], "truncated": False, "row_count": 2})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["搜索      5", "mail     10"]


def test_a_row_that_is_piped_ends_without_spaces(capsys):
    found = table("a")
    found.add("b", "short")
    output.show(found)
    assert all(line == line.rstrip() for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("columns", [40, 72, 200])
def test_columns_sets_the_width_of_what_is_piped(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    output.show(table("a"))
    longest = max(map(len, capsys.readouterr().out.splitlines()))
    assert columns - 12 < longest <= columns


@pytest.mark.slow
@pytest.mark.parametrize("columns", some(["0", "1", "-5", "wide", "²", ""], 2))
def test_a_width_that_nothing_fits_in_is_ignored(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = subprocess.run(
        [sys.executable, "-m", "switchgear_cli", "version", "--help"],
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=True,
    )
    assert "--json" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["40", "59", "60", "200"])
def test_help_names_every_option_in_one_piece_at_any_width(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["worker", "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= int(columns)
    for option in ("--bootstrap-servers", "--session-timeout-s", "--policy-file"):
        assert option in shown


def on_a_terminal(environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    kept = {
        key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"}
    }
    subprocess.run(
        [sys.executable, "-c", SHOW], stdin=theirs, stdout=theirs, env={**kept, "TERM": "xterm", **environment}, timeout=READY_S, check=True
    )  # fmt: skip
    os.close(theirs)
    found = b""
    try:
        while piece := os.read(ours, 65_536):
            found += piece
    except OSError:  # Linux says so that the other end is closed
        pass
    os.close(ours)
    return found.decode()


@pytest.mark.slow
def test_a_terminal_has_colours_and_its_own_width_unless_columns_and_no_color_say_otherwise():
    plain = on_a_terminal({"COLUMNS": "70", "NO_COLOR": "1"})
    assert "\x1b[31m" not in plain
    assert max(len(line.rstrip("\r").replace("\x1b[1m", "").replace("\x1b[0m", "")) for line in plain.split("\n")) <= 70
    assert "\x1b[31m" in on_a_terminal({})
