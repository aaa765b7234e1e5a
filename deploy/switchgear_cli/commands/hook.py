"""``switchgear hook``: guard the tools of a program that starts a command for each event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from switchgear_cli.hook import install as settings_file
from switchgear_cli.hook.calls import Options
from switchgear_cli.hook.run import Line, run
from switchgear_schemas.claude_code import DEFAULT_TOOLS
from switchgear_schemas.errors import WrongUsageError

hook = App(name="hook", help="Guard the tools of Claude Code with circuit breakers.")


@hook.command(name="claude-code")
def claude_code(
    *,
    tools: str = DEFAULT_TOOLS,
    terminal_after: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    state_file: Path | None = None,
    install: Annotated[bool, Parameter(negative=())] = False,
    uninstall: Annotated[bool, Parameter(negative=())] = False,
    print_: Annotated[bool, Parameter(name="--print", negative=())] = False,
    settings: Path = settings_file.SETTINGS,
) -> int:
    """Answer one event of Claude Code: read it from standard input, and refuse the call while the tool's circuit is open.

    Claude Code starts this for each event, as its settings say. Write them with --install. If anything goes wrong, the call goes on.

    Args:
        tools: Which tools to guard: globs over Claude Code's names, comma-separated.
        terminal_after: Stop the session when this many calls were refused. By default it goes on.
        state_file: The SQLite file with the circuits, which all sessions share. By default it is in ~/.local/state/switchgear.
        install: Write the hooks into Claude Code's settings, with these options.
        uninstall: Remove them from the settings.
        print_: Print the hooks as JSON, to be added by hand.
        settings: Claude Code's settings: of a project, or ~/.claude/settings.json for all.
    """
    if install + uninstall + print_ > 1:
        raise WrongUsageError(
            "--install, --uninstall and --print are three different things.", hint="Give one of them."
        )
    options = Options(tools, terminal_after)
    if print_:
        print(settings_file.snippet(settings_file.section(options, state_file)))
    elif install:
        written = settings_file.install(settings, settings_file.section(options, state_file))
        print(f"The hooks are in {written}. New sessions of Claude Code use them.")
    elif uninstall:
        removed = settings_file.uninstall(settings)
        print(f"The hooks are {'removed from' if removed else 'not in'} {settings}.")
    else:
        return run(Line(options, state_file))
    return 0
