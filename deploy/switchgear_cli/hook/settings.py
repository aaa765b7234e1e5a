"""Single settings without pydantic, which takes longer to import than an event may take."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from switchgear_schemas.errors import SettingsError


def setting(name: str) -> str:
    """Return a setting from its ``SWITCHGEAR_*`` variable or from the settings file; empty if it is not set."""
    return os.environ.get(f"SWITCHGEAR_{name.upper()}") or str(_from_file().get(name) or "")


def is_true(name: str) -> bool:
    """Return whether a setting is true."""
    return setting(name).lower() in {"true", "1", "yes", "on"}


@cache
def _from_file() -> dict[str, Any]:
    if not os.environ.get("SWITCHGEAR_CONFIG"):
        return {}
    from switchgear_schemas.settings_sources import from_file  # noqa: PLC0415 - most users have no such file

    try:
        return {name: each.value for name, each in from_file().items()}
    except SettingsError:  # the process that sends events logs it
        return {}
