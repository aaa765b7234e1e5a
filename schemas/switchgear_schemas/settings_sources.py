"""The sources of settings: environment variables, and the TOML file that ``SWITCHGEAR_CONFIG`` names."""

from __future__ import annotations

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

from switchgear_schemas.errors import SettingsError
from switchgear_schemas.files import read_file

PREFIX: Final = "SWITCHGEAR_"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"

log: Final = logging.getLogger("switchgear.settings")
_OF_OTHERS: Final = ("test_", "mcp_")
"""Names of tests, and of what ``switchgear mcp-proxy --wrap`` puts into a client's file."""
_KUBERNETES: Final = re.compile(r"(.*_)?(service_host|service_port(_.*)?|port(_\d+_.*)?)")
"""Kubernetes sets these variables in every pod for a Service whose name begins with switchgear."""
_warned: Final[set[str]] = set()


class SourcedValue(NamedTuple):
    """A value and its source."""

    value: Any
    source: str


def from_environment(known: Collection[str]) -> dict[str, SourcedValue]:
    """Return the ``SWITCHGEAR_*`` variables that are settings. Log any other one once: it may be a typing error."""
    found: dict[str, SourcedValue] = {}
    for variable, value in os.environ.items():
        if not variable.upper().startswith(PREFIX) or variable.upper() == CONFIG_VARIABLE:
            continue
        name = variable[len(PREFIX) :].lower()
        if name in known:
            found[name] = SourcedValue(value, variable)
        elif variable not in _warned and not name.startswith(_OF_OTHERS) and not _KUBERNETES.fullmatch(name):
            _warned.add(variable)
            near = _nearest(name, known)
            meant = f" Did you mean {PREFIX}{near.upper()}?" if near else ""
            log.warning("The environment variable %s is not a setting and has no effect.%s", variable, meant)
    return found


def from_file() -> dict[str, SourcedValue]:
    """Return the values of the file that ``SWITCHGEAR_CONFIG`` names; an empty dict if it is unset or empty.

    Raises:
        SettingsError: The file can't be read, or isn't TOML.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if not named:
        return {}
    try:
        text = read_file(Path(named).expanduser()).decode("utf-8-sig")  # editors on Windows write a byte order mark
        return {name: SourcedValue(value, f"{name} in {named}") for name, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"The settings file {named} is not valid TOML: {error}.", hint='Text is in quotes: topic_prefix = "prod."'
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"The settings file {named} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # RuntimeError: "~" without a home directory. ValueError: a NUL
        if isinstance(error, FileNotFoundError | IsADirectoryError):
            why = "which is not a file"
        else:
            why = f"which can't be read: {error.strerror if isinstance(error, OSError) else error}"
        raise SettingsError(f"{CONFIG_VARIABLE} names {named}, {why}.", hint="Correct the path or unset it.") from None


def nearest(name: str, value: object, known: Collection[str]) -> str:
    """Return a hint for an unknown setting; empty if no known name is near. For a table, the hint names its first key."""
    if isinstance(value, dict):
        near = _nearest(f"{name}_{next(iter(value), '')}", known) or _nearest(name, known)
        return f" It is a table: write its keys at the top level{f', such as {near}' if near else ''}."
    near = _nearest(name, known)
    return f" Did you mean {near}?" if near else ""


def _nearest(name: str, known: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1)), None)
