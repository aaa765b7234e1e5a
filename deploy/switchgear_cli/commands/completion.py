"""``switchgear completion``: the script that completes commands and options in a shell."""

from __future__ import annotations

import importlib
from typing import Literal

from switchgear_cli.catalogue import COMMANDS, Entry


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script that completes commands and options in your shell.

    bash: switchgear completion bash > ~/.local/share/bash-completion/completions/switchgear
    zsh: switchgear completion zsh > a folder of $fpath, as _switchgear
    fish: switchgear completion fish > ~/.config/fish/completions/switchgear.fish

    Args:
        shell: bash, zsh or fish.
    """
    from switchgear_cli.main import build_app  # noqa: PLC0415 - main imports this module's package

    print(build_app(commands=[each for each in COMMANDS if _is_installed(each)]).generate_completion(shell=shell))


def _is_installed(entry: Entry) -> bool:
    """Return whether the command can be imported. Some need an extra that isn't installed."""
    try:
        importlib.import_module(f"switchgear_cli.commands.{entry.target.partition(':')[0]}")
    except ImportError:
        return False
    return True
