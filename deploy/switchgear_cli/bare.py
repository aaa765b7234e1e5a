"""What the command says where only the SDK is installed: the versions, and which extra each command needs."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from switchgear_cli.catalogue import COMMANDS


def answer(tokens: Sequence[str]) -> bool:
    """Print the overview or the version if that is asked for, and return whether it was."""
    if list(tokens) in ([], ["--help"], ["-h"]):
        _overview()
    elif list(tokens) in (["--version"], ["version"]):
        from switchgear.telemetry.registry import own_version  # noqa: PLC0415 - reading metadata costs 20 ms

        print(
            own_version()
            if tokens[0] == "--version"
            else f"switchgear {own_version()}, python {platform.python_version()}"
        )
    else:
        return False
    return True


def extra_of(tokens: Sequence[str]) -> str:
    """Return the extra to install for a command line."""
    named = next((token for token in tokens if not token.startswith("-")), None)
    return next((entry.extra for entry in COMMANDS if entry.name == named), "service")


def _overview() -> None:
    wide = max(len(entry.name) for entry in COMMANDS)
    print(
        "The SDK of Switchgear is installed, without its commands. Each is in an extra: pip install 'switchgear[EXTRA]'\n"
    )
    for extra in dict.fromkeys(entry.extra for entry in COMMANDS):
        print(f"[{extra}]")
        for entry in COMMANDS:
            if entry.extra == extra:
                print(f"  {entry.name:<{wide}}  {entry.summary}")
