"""Run one hook: read the event, print the answer. Never break the session of the person who works with Claude Code.

Whatever goes wrong, the tool call goes on. Exit code 2 would block it, so it is never used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from switchgear_cli.hook.calls import Options
from switchgear_schemas.claude_code import DEFAULT_TOOLS

BAD_INPUT: Final = 1
"""Claude Code shows the message and goes on."""
MOST_BYTES: Final = 64 * 1_048_576
"""The longest event to read. The result of a tool is part of it."""


class Line(NamedTuple):
    """A command line that handles an event."""

    options: Options
    state_file: Path | None


def parsed(tokens: Sequence[str]) -> Line | None:
    """Return the options of ``switchgear hook claude-code …``. Return None for any other command line.

    The parser of the other commands takes longer to import than an event may take. It gets the lines with ``--help``, ``--install`` or a
    mistake.
    """
    if list(tokens[:2]) != ["hook", "claude-code"]:
        return None
    found = {"--tools": DEFAULT_TOOLS, "--terminal-after": "", "--state-file": ""}
    words = [part for token in tokens[2:] for part in (token.split("=", 1) if token.startswith("--") else [token])]
    for name, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if name not in found or not value:
            return None
        found[name] = value
    after = found["--terminal-after"]
    if after and not (after.isdecimal() and int(after) > 0):
        return None
    options = Options(found["--tools"], int(after) if after else None)
    return Line(options, Path(found["--state-file"]).expanduser() if found["--state-file"] else None)


def run(line: Line) -> int:
    """Handle the event on standard input, and return the exit code."""
    try:
        event = json.loads(sys.stdin.buffer.read(MOST_BYTES))
    except (ValueError, RecursionError, OSError) as error:
        print(f"switchgear: Standard input is not an event of Claude Code: {error}.", file=sys.stderr)
        return BAD_INPUT
    if not isinstance(event, dict):
        print("switchgear: Standard input is not an event of Claude Code: it holds no JSON object.", file=sys.stderr)
        return BAD_INPUT
    try:
        _answer(event, line)
    except Exception as error:  # noqa: BLE001 - fail open
        print(f"switchgear: The hook failed, and the call goes on: {type(error).__name__}: {error}", file=sys.stderr)
    return 0


def _answer(event: dict[str, Any], line: Line) -> None:
    from switchgear_cli.hook import events, outbox, state  # noqa: PLC0415 - SQLite may be missing or broken

    path = line.state_file or state.default_path()
    with state.State(path) as shared:
        found = events.answer(event, line.options, shared)
    if found is not None:
        print(json.dumps(found), flush=True)
    outbox.start_sender(path)
