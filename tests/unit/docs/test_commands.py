"""Every command that the README, the pages, the Makefile, the help and the error messages show can be typed as it is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from cyclopts import MissingArgumentError

from switchgear_cli.main import build_app
from tests.support.snippets import REPOSITORY

pytestmark = pytest.mark.slow

MAKEFILE = REPOSITORY / "Makefile"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SOURCES = [
    path
    for layer in ("schemas", "producers", "stream", "sinks", "deploy")
    for path in (REPOSITORY / layer).rglob("*.py")
]
SHELLS = {"", "sh", "bash", "console", "text"}
PLACEHOLDERS = re.compile(r"[…{\[]|\bCOMMAND\b")


def commands(text: str) -> Iterator[str]:
    """The commands of a shell's text: without what they are piped to, comments and variables before them."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|>;&<")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a line of a text in quotes
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        end = next((place for place, word in enumerate(words) if re.fullmatch(r"[|>;&<]+", word)), len(words))
        if words[:1] in (["switchgear"], ["make"]) and words[1:2] != ["@"]:  # "switchgear @ URL" is for pip
            yield shlex.join(words[:end])


def blocks() -> dict[str, str]:
    """Each command of a block of shell, with the page that shows it."""
    found = {}
    for page in PAGES:
        for language, block in re.findall(
            r"^ *```(\w*)[^\n]*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            if language in SHELLS:
                found |= dict.fromkeys(commands(block), page.name)
    return found


def mentions() -> dict[str, str]:
    """Each command that a sentence names, of a page, a help text or a message. It may stand for a command with more arguments."""
    found = {}
    for file in (*PAGES, MAKEFILE, *SOURCES):
        for shown in re.findall(r"`((?:switchgear|make) [^`\n]+)`", file.read_text()):
            if PLACEHOLDERS.search(shown) is None:
                found |= dict.fromkeys(commands(shown), file.name)
    return found


def examples() -> dict[str, str]:
    """Each target of the Makefile with the values that its comment gives as an example."""
    found = {}
    for target, text in re.findall(r"^## ([\w-]+): (.*)$", MAKEFILE.read_text(), re.MULTILINE):
        values = re.findall(r'([A-Z]+)=(?:"([^"]*)"|([\w.-]+))', text)
        found[shlex.join(["make", target, *(f"{name}={quoted or word}" for name, quoted, word in values)])] = "Makefile"
    return found


BLOCKS, MENTIONS, EXAMPLES = blocks(), mentions(), examples()
SHOWN = EXAMPLES | MENTIONS | BLOCKS


def parse(command: str) -> None:
    """Parse `switchgear …` as the command line does, and don't run it."""
    _, *words = shlex.split(command)
    build_app(words[0]).parse_args(words, exit_on_error=False, print_error=False)


def made(command: str) -> str:
    """What `make …` would run."""
    _, *words = shlex.split(command)
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    done = subprocess.run(
        ["make", "--dry-run", *words], cwd=REPOSITORY, env=outer, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_are_found_where_they_are_shown():
    assert {"make up", "switchgear doctor", "switchgear sink"} <= BLOCKS.keys()
    assert {"make up 'ARGS=--alerts alerts.toml'", "switchgear topics ensure"} <= MENTIONS.keys()
    assert "make up 'ARGS=--no-demo --api-port 9000'" in EXAMPLES


@pytest.mark.parametrize("command", sorted(each for each in SHOWN if each.startswith("switchgear ")))
def test_a_command_that_is_shown_is_a_command_line(command):
    try:
        parse(command)
    except MissingArgumentError:
        assert command not in BLOCKS, f"{SHOWN[command]} shows a command that can't be typed so"


@pytest.mark.parametrize("command", sorted(each for each in SHOWN if each.startswith("make ")))
def test_a_target_that_is_shown_is_in_the_makefile_and_makes_command_lines(command):
    for line in made(command).splitlines():
        if "/switchgear " in line:
            parse(f"switchgear {line.partition('/switchgear ')[2]}")


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", "up --demo"),
        ("--demo", "up --demo"),
        ("--no-demo --api-port 9000", "up --no-demo --api-port 9000"),
        ("--api-port 9000 --no-demo", "up --api-port 9000 --no-demo"),
        ("--workers 2", "up --demo --workers 2"),
    ],
)
def test_make_up_sends_demo_traffic_unless_its_arguments_say_whether(arguments, given):
    (line,) = [
        line for line in made(f"make up {shlex.quote(f'ARGS={arguments}')}").splitlines() if "/switchgear " in line
    ]
    assert line.split("/switchgear ")[1].split() == given.split()
