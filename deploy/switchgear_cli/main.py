"""The ``switchgear`` command: find the function, run it, and turn what goes wrong into a sentence and an exit code.

Exit codes: 0 done, 1 failed (one sentence on standard error), 2 wrong usage, 130 interrupted, 141 the reader of our
output went away.
"""

from __future__ import annotations

import difflib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from cyclopts import App, CycloptsError, Group

from switchgear_cli.catalogue import ABOUT, COMMANDS, GROUPS
from switchgear_cli.usage import WrongUsageError
from switchgear_schemas.errors import SwitchgearError

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


def build_app(invoked: str | None = None) -> App:
    """The command line. Commands are imported when they are used, so that ``--help`` is quick.

    Args:
        invoked: The command that is about to run: its own docstring is its help, not its line in the overview.
    """
    app = App(
        name="switchgear",
        help="Fleet-wide circuit breakers and tool health for AI agents.",
        version=_version,
        version_flags=["--version"],
        help_flags=["--help", "-h"],
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for place, entry in enumerate(COMMANDS):
        app.command(
            f"switchgear_cli.commands.{entry.target}",
            name=entry.name,
            help=None if entry.name == invoked else entry.summary,
            group=groups[entry.group],
            sort_key=place,
        )
    for flag in ("--help", "--version"):
        app[flag].group = groups[ABOUT]
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. A command's own int is its exit code."""
    tokens = list(arguments)
    try:
        code = _call(tokens)
        sys.stdout.flush()
    except SwitchgearError as error:
        return _say(str(error), WRONG_USAGE if isinstance(error, WrongUsageError) else FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except SystemExit as asked:
        if isinstance(asked.__context__, BrokenPipeError):  # how rich ends a console whose reader is gone
            return BROKEN_PIPE
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            where = f" ({error.filename})" if error.filename else ""
            return _say(f"The disk is full{where}. Make room and try again.", FAILED)
        raise
    return code


def _call(tokens: list[str]) -> int:
    invoked = next((token for token in tokens if not token.startswith("-")), None)
    names = [entry.name for entry in COMMANDS]
    if invoked is not None and invoked not in names:
        near = difflib.get_close_matches(invoked, names, n=1)
        did_you_mean = f" Did you mean {near[0]}?" if near else ""
        return _say(f"There is no command {invoked}.{did_you_mean} Try `switchgear --help`.", WRONG_USAGE)
    try:
        result = build_app(invoked)(
            tokens or ["--help"], result_action="return_value", exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        sentence = " ".join(str(error).split())
        return _say(f"{sentence} Try `switchgear {f'{invoked} ' if invoked else ''}--help`.", WRONG_USAGE)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _say(sentence: str, code: int) -> int:
    print(f"switchgear: {sentence}", file=sys.stderr)
    return code


def _version() -> str:
    from switchgear_cli.commands.version import own_version  # noqa: PLC0415 - reading metadata costs 20 ms

    return own_version()


def main() -> NoReturn:
    """Entry point of the console script and of ``python -m switchgear_cli``."""
    sys.exit(run(sys.argv[1:]))
