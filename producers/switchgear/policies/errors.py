"""The errors of a policy file. Each names the table and the key, and says what to do."""

from __future__ import annotations

import difflib
from typing import Any, Final

import pydantic

from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.policy import BreakerPolicy, Cusum

_MOST_SHOWN: Final = 60
_MOST_BITS: Final = 332
"""Bits of a number of a hundred digits. Python refuses to write much longer ones."""


class PolicyError(SwitchgearError):
    """A policy file is missing or unreadable, or its values are not a possible policy."""


def unknown_key(source: str, table: str, key: object, known: list[str]) -> PolicyError:
    """Return an error for an unknown key, with the nearest known one."""
    near = difflib.get_close_matches(key[:_MOST_SHOWN], known, n=1) if isinstance(key, str) else []
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
    named = key if isinstance(key, str) and len(key) <= _MOST_SHOWN else shown(key)
    return PolicyError(f"{source}: {table}: unknown key {named}.", hint=hint)


def shown(value: object) -> str:
    """Return the value as short text, whatever its size and depth."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _MOST_BITS:
        return "a number of more than 100 digits"
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}…"
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def check_pattern(source: str, pattern: object) -> str:
    """Return the glob or name of a table.

    Raises:
        PolicyError: No tool can have such a name.
    """
    if not isinstance(pattern, str):
        raise PolicyError(f"{source}: tools: {shown(pattern)} is not a tool's name.", hint="Put it in quotes.")
    if not 1 <= len(pattern) <= MAX_NAME_LENGTH:
        raise PolicyError(
            f"{source}: tools: the name {shown(pattern)} has {len(pattern)} characters.",
            hint=f"A tool's name has 1 to {MAX_NAME_LENGTH}.",
        )
    return pattern


def check_keys(source: str, table: str, values: dict[str, Any]) -> None:
    """Check that a policy has every key of a table.

    Raises:
        PolicyError: A key is unknown. The message names the table, the key and the nearest known key.
    """
    known = list(BreakerPolicy.model_fields)
    for key, value in values.items():
        if key not in known:
            raise unknown_key(source, table, key, known)
        if key == "cusum" and isinstance(value, dict):
            for name in value:
                if name not in Cusum.model_fields:
                    raise unknown_key(source, f"{table}.cusum", name, list(Cusum.model_fields))


def impossible(source: str, tables: str, error: pydantic.ValidationError) -> PolicyError:
    """Return an error for values that are out of range or contradict each other."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ").replace("valid tuple", "list").replace("valid frozenset", "list")
    got = f" (got {shown(first['input'])})" if where and not isinstance(first["input"], dict) else ""
    return PolicyError(f"{source}: {tables}: {f'{where}: ' if where else ''}{said}{got}.")
