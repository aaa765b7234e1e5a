"""The ``switchgear`` command: find the function, run it, and turn what goes wrong into a sentence and an exit code.

Exit codes: 0 done, 1 failed (one sentence on standard error), 2 wrong usage, 130 interrupted, 141 the reader of our
output went away.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from switchgear_cli import bare
from switchgear_cli.catalogue import ABOUT, COMMANDS, GROUPS, Entry
from switchgear_cli.terminal import safe_output
from switchgear_cli.usage import sentence
from switchgear_schemas.errors import SwitchgearError, WrongUsageError

if TYPE_CHECKING:
    from cyclopts import App

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
EXIT_CODES: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage and nothing was done, 130 interrupted, 141 the reader of the output went away."
NARROW: Final = 60
"""Below this many columns, help is printed as plain lines."""
_LEAST_COLUMNS: Final = 40


def build_app(invoked: str | None = None, commands: Iterable[Entry] = COMMANDS) -> App:
    """Return the command line's application. Commands are imported when they run, so that ``--help`` is fast.

    Args:
        invoked: The command that is about to run: its own docstring is its help, not its line in the overview.
        commands: The commands to have.
    """
    from cyclopts import App, Group  # noqa: PLC0415 - the SDK alone is installed without it: run() says what to do

    app = App(
        name="switchgear",
        help="Fleet-wide circuit breakers and tool health for AI agents.",
        help_epilogue=EXIT_CODES if invoked is None else None,
        version=_version,
        version_flags=["--version"],
        help_flags=["--help", "-h"],
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for place, entry in enumerate(commands):
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
    """Run one command line and return its exit code. If a command returns an int, that is its exit code.

    A hook never ends with WRONG_USAGE: Claude Code would block the tool call.
    """
    tokens = list(arguments)
    with safe_output():
        code = _run(tokens)
    return FAILED if code == WRONG_USAGE and tokens[:1] == ["hook"] else code


def _run(tokens: list[str]) -> int:
    _check_columns()
    try:
        code = _call_hook(tokens)
        if code is None:
            code = _call(tokens)
        sys.stdout.flush()
    except (SwitchgearError, ImportError) as error:
        return _say(_explained(error, tokens), WRONG_USAGE if isinstance(error, WrongUsageError) else FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit, so it needs an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except SystemExit as asked:
        if isinstance(asked.__context__, BrokenPipeError):  # rich ends like this if the console's reader is gone
            return BROKEN_PIPE
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            where = f" ({error.filename})" if error.filename else ""
            return _say(f"The disk is full{where}. Make room and try again.", FAILED)
        raise
    return code


def _call_hook(tokens: list[str]) -> int | None:
    """Handle an event of a hook without the parser of command lines, which takes most of the time. None: it isn't one."""
    if tokens[:1] != ["hook"]:
        return None
    from switchgear_cli.hook import run  # noqa: PLC0415 - other commands don't need it

    line = run.parsed(tokens)
    return None if line is None else run.run(line)


def _call(tokens: list[str]) -> int:
    try:
        from cyclopts import CycloptsError  # noqa: PLC0415 - see build_app
    except ModuleNotFoundError:
        if bare.answer(tokens):
            return 0
        raise

    invoked = next((token for token in tokens if not token.startswith("-")), None)
    names = [entry.name for entry in COMMANDS]
    if invoked is not None and invoked not in names:
        near = difflib.get_close_matches(invoked, names, n=1)
        did_you_mean = f" Did you mean {near[0]}?" if near else ""
        return _say(f"There is no command {invoked}.{did_you_mean} Try `switchgear --help`.", WRONG_USAGE)
    app = build_app(invoked)
    try:
        if not tokens or not {"--help", "-h"}.isdisjoint(tokens):
            _help(app, tokens or ["--help"])
            return 0
        result = app(tokens, result_action="return_value", exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _say(sentence(error, invoked), WRONG_USAGE)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _check_columns() -> None:
    """Remove a width from ``COLUMNS`` that nothing can be printed in: with one or two columns rich never ends."""
    columns = os.environ.get("COLUMNS")
    if columns is None:
        return
    if not columns.isdecimal() or int(columns) == 0:
        del os.environ["COLUMNS"]
    elif int(columns) < _LEAST_COLUMNS:
        os.environ["COLUMNS"] = str(_LEAST_COLUMNS)


def _help(app: App, tokens: list[str]) -> None:
    """Print help: in boxes, or as plain lines if boxes would break the names of options."""
    from rich.console import Console  # noqa: PLC0415 - 50 ms that other commands need not wait

    width = Console().width
    if width >= NARROW:
        app(tokens, result_action="return_value", exit_on_error=False, print_error=False)
        return
    app.help_formatter = "plain"
    text = io.StringIO()
    unlimited = Console(file=text, width=1_000_000)
    app(tokens, console=unlimited, result_action="return_value", exit_on_error=False, print_error=False)
    for line in text.getvalue().splitlines():
        indent = "    " if line.startswith(" ") else ""
        print(
            textwrap.fill(
                line.rstrip(), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        )


def _explained(error: SwitchgearError | ImportError, tokens: list[str]) -> str:
    """Return the message for a third-party package that isn't installed. Raise any other error again."""
    if isinstance(error, SwitchgearError):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and cause.name and not cause.name.startswith("switchgear"):
            package = cause.name.partition(".")[0]
            return (
                f"This command needs the package {package}, which is not installed."
                f" Install switchgear[{bare.extra_of(tokens)}]: pip install 'switchgear[{bare.extra_of(tokens)}]'"
            )
        cause = cause.__cause__ or cause.__context__
    raise error


def _say(text: str, code: int) -> int:
    print(f"switchgear: {text}", file=sys.stderr)
    return code


def _version() -> str:
    from switchgear.telemetry.registry import own_version  # noqa: PLC0415 - reading metadata costs 20 ms

    return own_version()


def main() -> NoReturn:
    """Run the console script and ``python -m switchgear_cli``."""
    with safe_output():
        code = run(sys.argv[1:])
    sys.exit(code)
