"""Check policy values from a command line or a file before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from switchgear.policies import PolicyError
from switchgear.policies.errors import unknown_key
from switchgear.policies.load import read_file
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.policy import BreakerPolicy, Cusum

SOURCE = "policy set"


def policy_from(assignments: Sequence[str], file: Path | None) -> BreakerPolicy:
    """Return a policy that has only the named values set.

    Args:
        assignments: ``key=value``. The value is JSON if it parses as JSON, else text. ``off`` turns a rule off, ``cusum.key=value``
            names a part, a list is JSON or comma-separated.
        file: TOML or YAML with the same keys at its top level. Assignments override it.

    Raises:
        WrongUsageError: No value is named, a key is unknown (the error suggests the nearest), a value is out of range, or values
            don't fit together.
    """
    try:
        values = {} if file is None else dict(read_file(file))
        given: set[str] = set()
        for assignment in assignments:
            key = _assign(values, assignment)
            if key in given:
                raise WrongUsageError(f"{key} is given twice.", hint="Give each value once.")
            given.add(key)
        if not values:
            raise WrongUsageError("No value is named.", hint="Write key=value, e.g. wait_duration_in_open_state_s=30.")
        source = SOURCE if file is None else str(file)
        from switchgear_api.operate.policy_in_force import checked_values  # noqa: PLC0415 - imports aiokafka, 100 ms

        return checked_values(values, source)
    except PolicyError as error:
        raise WrongUsageError(error.message.replace(": [default]", ""), hint=error.hint) from None


def _assign(values: dict[str, Any], assignment: str) -> str:
    """Put the value where it belongs, and return its key."""
    key, equals, text = assignment.partition("=")
    if not (key and equals and text):
        raise WrongUsageError(f"{assignment!r} is not key=value.", hint="Write e.g. minimum_reporters=3.")
    head, dot, part = key.partition(".")
    if not dot:
        values[key] = _value(key, text)
        return key
    if head != "cusum":
        raise unknown_key(SOURCE, "values", key, [*BreakerPolicy.model_fields, *_parts()])
    if part not in Cusum.model_fields:
        raise unknown_key(SOURCE, "values", key, _parts())
    inner = values.get("cusum")
    values["cusum"] = {**(inner if isinstance(inner, dict) else {}), part: _value(part, text)}
    return key


def _parts() -> list[str]:
    return [f"cusum.{field}" for field in Cusum.model_fields]


def _value(key: str, text: str) -> Any:
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise PolicyError(
            f"{SOURCE}: {key}: it is nested too deeply.", hint="A value is a number, a word or a list."
        ) from None
    except ValueError:
        found = text
    if key in {"counted_error_classes", "fallback"} and isinstance(found, str):
        return [part.strip() for part in found.split(",")]
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object whose keys differ."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise PolicyError(f"{SOURCE}: the key {key} is given twice.", hint="Give each value once.")
        found[key] = value
    return found
