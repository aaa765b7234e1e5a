"""Check policy values from a command line or a file before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from switchgear.fleet.policy_overrides import laid_over
from switchgear.policies import Explanation, PolicyError, PolicySet
from switchgear.policies.errors import impossible, unknown_key
from switchgear.policies.load import read_file
from switchgear_cli.operate.targets import READ_S, KnownState, read_known
from switchgear_cli.usage import WrongUsageError
from switchgear_schemas.families import family_circuit_id
from switchgear_schemas.policy import BreakerPolicy, Cusum
from switchgear_schemas.settings import Settings

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
        return _checked(values, source)
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


def _checked(values: Mapping[str, Any], source: str) -> BreakerPolicy:
    """Check by the rules of a policy file over the fleet's default, then check the values alone."""
    import pydantic  # noqa: PLC0415 - costs 50 ms that `--help` must not

    known = PolicySet(values, source=source)
    named = {key: (None if value == "off" or value is False else value) for key, value in values.items()}
    named |= {key: {} for key in ("cusum",) if values.get(key) is True}
    if "honor_retry_after" in values:
        named["honor_retry_after"] = values["honor_retry_after"]
    try:
        return BreakerPolicy.model_validate(named)
    except pydantic.ValidationError as error:
        raise impossible(known.source, "the values", error) from None


_SET: Final = "policy set "


async def in_force(
    settings: Settings, explained: Explanation, *, family: bool = False, timeout_s: float = READ_S
) -> Explanation:
    """Return ``explained`` with the operators' values over it. The source of each is ``policy set`` and the name or glob.

    Raises:
        BrokerUnavailableError: The broker didn't deliver the changelog within ``timeout_s`` seconds.
        PolicyError: The policy file has changed since, and the values don't fit over it. The worker uses the file's values.
    """
    known = await read_known(settings, [explained.tool_name], timeout_s=timeout_s)
    layers = _family_layers(known, explained.tool_name) if family else _layers(known, explained.tool_name)
    sources = dict(explained.sources)
    for name, layer in layers:
        for key, value in json.loads(layer).items():
            for field in (f"{key}.{part}" for part in value) if isinstance(value, dict) else (key,):
                sources[field] = f"{_SET}{name}"
    policy = laid_over(explained.policy, tuple(layer for _, layer in layers))
    return explained.model_copy(update={"policy": policy, "sources": sources})


def overridden(explained: Explanation) -> dict[str, str]:
    """Values that ``policy set`` gave: field to the name or glob that they were set for."""
    found = {field: source for field, source in explained.sources.items() if source.startswith(_SET)}
    return {field: source.removeprefix(_SET) for field, source in sorted(found.items())}


def _layers(known: KnownState, tool_name: str) -> list[tuple[str, bytes]]:
    """Return each name or glob and its values, the strongest last."""
    found = [(glob, kept.tables[glob]) for kept in known.overrides.values() for glob in kept.covering(tool_name)]
    row = known.circuits.get(tool_name)
    return found if row is None or row.policy is None else [*found, (tool_name, row.policy)]


def _family_layers(known: KnownState, family: str) -> list[tuple[str, bytes]]:
    row = known.circuits.get(family_circuit_id(family))
    return [] if row is None or row.policy is None else [(family, row.policy)]
