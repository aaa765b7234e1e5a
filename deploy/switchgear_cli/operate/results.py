"""Print the results of operator commands."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

from switchgear_api.operate.command_result import CommandOutcome, CommandResult

INTERRUPTED: Final = 130
IN_FORCE: Final[Collection[CommandOutcome]] = ("applied", "unchanged", "sent")
CHANGED: Final[Collection[CommandOutcome]] = ("applied", "sent")


def print_result(
    given: CommandResult, *, json: bool, done: Collection[CommandOutcome], more: Mapping[str, Any] | None = None
) -> bool:
    """Print the result of one command: a sentence, or with ``json`` one object that also has ``more``.

    Returns:
        Whether the outcome is among ``done``. A sentence about another one goes to standard error.
    """
    good = given.outcome in done
    if json:
        print(json_module.dumps(given.document() | dict(more or {})))
    else:
        print(given.sentence(), file=sys.stdout if good else sys.stderr)
    return good


def interrupted() -> int:
    """Say what becomes of what was sent before Ctrl-C, and return the exit code."""
    print("switchgear: Interrupted. What was sent is applied as soon as a worker reads it.", file=sys.stderr)
    return INTERRUPTED
