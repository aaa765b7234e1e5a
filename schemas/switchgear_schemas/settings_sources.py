"""Where settings come from: environment variables, and the TOML file that ``SWITCHGEAR_CONFIG`` names."""

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

PREFIX: Final = "SWITCHGEAR_"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"

log: Final = logging.getLogger("switchgear.settings")
_OF_TESTS: Final = "test_"
_KUBERNETES: Final = re.compile(r"(.*_)?(service_host|service_port(_.*)?|port(_\d+_.*)?)")
"""Kubernetes sets such variables in every pod for a Service whose name begins with switchgear."""
_warned: Final[set[str]] = set()


class Given(NamedTuple):
    """A value, and where it was given."""

    value: Any
    source: str


def from_environment(known: Collection[str]) -> dict[str, Given]:
    """The ``SWITCHGEAR_*`` variables that are settings. Another one is logged, once: it may be a typing error."""
    found: dict[str, Given] = {}
    for variable, value in os.environ.items():
        if not variable.upper().startswith(PREFIX) or variable.upper() == CONFIG_VARIABLE:
            continue
        name = variable[len(PREFIX) :].lower()
        if name in known:
            found[name] = Given(value, variable)
        elif variable not in _warned and not name.startswith(_OF_TESTS) and not _KUBERNETES.fullmatch(name):
            _warned.add(variable)
            near = _nearest(name, known)
            meant = f" Did you mean {PREFIX}{near.upper()}?" if near else ""
            log.warning("The environment variable %s is not a setting and has no effect.%s", variable, meant)
    return found


def from_file() -> dict[str, Given]:
    """What the file holds that ``SWITCHGEAR_CONFIG`` names; nothing where it is unset or empty.

    Raises:
        SettingsError: the file can't be read, or is not TOML.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if not named:
        return {}
    try:
        text = Path(named).expanduser().read_text(encoding="utf-8-sig")  # an editor of Windows writes a byte order mark
        return {name: Given(value, f"{name} in {named}") for name, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"The settings file {named} is not valid TOML: {error}.", hint='Text is in quotes: topic_prefix = "prod."'
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"The settings file {named} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: "~" without a home
        if isinstance(error, FileNotFoundError | IsADirectoryError):
            why = "which is not a file"
        else:
            why = f"which can't be read: {error.strerror if isinstance(error, OSError) else error}"
        raise SettingsError(f"{CONFIG_VARIABLE} names {named}, {why}.", hint="Correct the path or unset it.") from None


def nearest(name: str, value: object, known: Collection[str]) -> str:
    """A hint for an unknown key of a file; empty where nothing is near. A table was meant by its first key."""
    if isinstance(value, dict):
        near = _nearest(f"{name}_{next(iter(value), '')}", known) or _nearest(name, known)
        return f" It is a table: write its keys at the top level{f', such as {near}' if near else ''}."
    near = _nearest(name, known)
    return f" Did you mean {near}?" if near else ""


def _nearest(name: str, known: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1)), None)
