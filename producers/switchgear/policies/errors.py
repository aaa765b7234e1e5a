"""PolicyError: what is wrong with a policy file, in one sentence that names the table, the key and the way out."""

from __future__ import annotations

import difflib
from typing import Any

import pydantic

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.policy import BreakerPolicy, Cusum


class PolicyError(SwitchgearError):
    """A policy file that is missing, unreadable or impossible."""


def unknown_key(source: str, table: str, key: str, known: list[str]) -> PolicyError:
    """An error for a key that nothing reads, with the nearest that something does."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
    return PolicyError(f"{source}: {table}: unknown key {key}.", hint=hint)


def check_keys(source: str, table: str, values: dict[str, Any]) -> None:
    """Refuse keys that are not a policy's.

    Raises:
        PolicyError: naming the table, the key and the nearest known one.
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
    """An error for values out of range or that can't be had together."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ")
    shown = f" (got {first['input']!r})" if where and not isinstance(first["input"], dict) else ""
    return PolicyError(f"{source}: {tables}: {f'{where}: ' if where else ''}{said}{shown}.")
