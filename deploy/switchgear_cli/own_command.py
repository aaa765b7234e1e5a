"""How other programs start Switchgear again: clients of MCP servers, and hooks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

_OF_UV = "archive-v"
"""How the folder of environments in the cache of uv begins. They are gone when the cache is pruned."""


def own_command(extra: str | None = None) -> list[str]:
    """Return how to start Switchgear: by name if it is on the PATH outside of a virtual environment, else by its full path.

    After ``uvx`` or ``pipx run``, which keep no environment, it is the same command again.

    Args:
        extra: The extra that the command needs.
    """
    prefix = Path(sys.prefix)
    if prefix.parent.name.startswith(_OF_UV) and os.environ.get("UV"):
        return [os.environ["UV"], "tool", "run", "--from", _requirement(extra), "switchgear"]
    pipx = shutil.which("pipx")
    if prefix.parent.name == ".cache" or (prefix.parent.name == "pipx" and prefix.parent.parent.name == ".cache"):
        return [pipx or "pipx", "run", "--spec", _requirement(extra), "switchgear"]
    found = shutil.which("switchgear")
    if found is None:
        return [sys.executable, "-P", "-m", "switchgear_cli"]
    in_environment = sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)
    return [found if in_environment else "switchgear"]


def _requirement(extra: str | None) -> str:
    """Return what was installed, as a requirement: a file or a repository if it came from there, else the version."""
    distribution = metadata.distribution("switchgear")
    name = f"switchgear[{extra}]" if extra else "switchgear"
    source = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = source.get("url")
    if not url:
        return f"{name}=={distribution.version}"
    vcs = source.get("vcs_info")
    return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else f"{name} @ {url}"
