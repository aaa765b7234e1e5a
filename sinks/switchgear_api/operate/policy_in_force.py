"""The policy in force: the policy file's values, and over them the operators'."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pydantic

from switchgear.fleet.policy_overrides import laid_over, merged
from switchgear.fleet.rows import PolicyOverrides, Row
from switchgear.policies import Explanation, PolicyError, PolicySet
from switchgear.policies.errors import impossible
from switchgear.policies.glob import is_glob
from switchgear_api.operate.known_state import READ_S, KnownState, read_known
from switchgear_schemas.circuit_ids import circuit_id, read_circuit_id
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings


def checked_values(values: Mapping[str, Any], source: str) -> BreakerPolicy:
    """Check by the rules of a policy file over the fleet's default, then check the values alone."""
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
    return with_overrides(explained, known, family=family)


def with_overrides(explained: Explanation, known: KnownState, *, family: bool = False) -> Explanation:
    """Return ``explained`` with the operators' values over it, from what the workers know.

    Raises:
        PolicyError: As for :func:`in_force`.
    """
    layers = _family_layers(known, explained.tool_name) if family else _layers(known, explained.tool_name)
    sources = dict(explained.sources)
    for name, layer in layers:
        for key, value in json.loads(layer).items():
            for field in (f"{key}.{part}" for part in value) if isinstance(value, dict) else (key,):
                sources[field] = f"{_SET}{name}"
    policy = laid_over(explained.policy, tuple(layer for _, layer in layers))
    return explained.model_copy(update={"policy": policy, "sources": sources})


def policy_used(explained: Explanation, known: KnownState, *, family: bool = False) -> BreakerPolicy:
    """Return the policy that the worker uses: as :func:`with_overrides`, or the file's if the operators' values don't fit over it."""
    try:
        return with_overrides(explained, known, family=family).policy
    except PolicyError:
        return explained.policy


def after_setting(known: KnownState, subject: str, values: Mapping[str, Any]) -> KnownState:
    """Return what the workers will know after ``policy set``.

    Args:
        known: What they know.
        subject: The glob, or the id of the tool's or family's circuit.
        values: What is set, over what was set for the same subject. Empty removes that.
    """
    if not is_glob(subject):
        row = known.circuits.get(subject) or Row(circuit_id=subject, tool_name=read_circuit_id(subject).name)
        row = msgspec.structs.replace(row, policy=merged(row.policy, values))
        return replace(known, circuits={**known.circuits, subject: row})
    tables = _tables(known)
    layer = merged(tables.get(subject), values)
    if layer is not None:
        tables[subject] = layer
    else:
        tables.pop(subject, None)
    return replace(known, overrides={0: PolicyOverrides(partition=0, tables=tables)})


def overridden(explained: Explanation) -> dict[str, str]:
    """Values that ``policy set`` gave: field to the name or glob that they were set for."""
    found = {field: source for field, source in explained.sources.items() if source.startswith(_SET)}
    return {field: source.removeprefix(_SET) for field, source in sorted(found.items())}


def _layers(known: KnownState, tool_name: str) -> list[tuple[str, bytes]]:
    """Return each name or glob and its values, the strongest last."""
    tables = _tables(known)
    found = [(glob, tables[glob]) for glob in PolicyOverrides(partition=0, tables=tables).covering(tool_name)]
    row = known.circuits.get(circuit_id(tool_name))
    return found if row is None or row.policy is None else [*found, (tool_name, row.policy)]


def _tables(known: KnownState) -> dict[str, bytes]:
    """Return the values by glob, of which each partition has a copy."""
    return {glob: values for kept in known.overrides.values() for glob, values in kept.tables.items()}


def _family_layers(known: KnownState, family: str) -> list[tuple[str, bytes]]:
    row = known.circuits.get(circuit_id(family, "family"))
    return [] if row is None or row.policy is None else [(family, row.policy)]
