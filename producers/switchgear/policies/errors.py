"""The errors of a policy file. Each names the table and the key, and says what to do."""

from __future__ import annotations

import difflib
from typing import Final

import pydantic

from switchgear_schemas.errors import SwitchgearError

_MOST_SHOWN: Final = 60


class PolicyError(SwitchgearError):
    """A policy file is missing or unreadable, or its values are not a possible policy."""


def unknown_key(source: str, table: str, key: object, known: list[str]) -> PolicyError:
    """Return an error for an unknown key, with the nearest known one."""
    name = str(key)[:_MOST_SHOWN]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
    return PolicyError(f"{source}: {table}: unknown key {name}.", hint=hint)


def impossible(source: str, tables: str, error: pydantic.ValidationError) -> PolicyError:
    """Return an error for values that are out of range or contradict each other."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ").replace("valid tuple", "list").replace("valid frozenset", "list")
    got = f" (got {_shown(first['input'])})" if where and not isinstance(first["input"], dict) else ""
    return PolicyError(f"{source}: {tables}: {f'{where}: ' if where else ''}{said}{got}.")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write a number of more than 4,300 digits
        text = "a very large number"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
