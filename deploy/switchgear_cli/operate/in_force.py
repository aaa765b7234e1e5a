"""The policy in force for a tool: the policy file's values, and what operators set over them."""

from __future__ import annotations

import json
from typing import Final

from switchgear.fleet.overlay import laid_over
from switchgear.policies import Explanation
from switchgear_cli.operate.known import READ_S, Known, read_known
from switchgear_schemas.settings import Settings

_SET: Final = "policy set "


async def in_force(settings: Settings, explained: Explanation, *, timeout_s: float = READ_S) -> Explanation:
    """``explained`` with the operators' values over it; the source of each is ``policy set`` and the name or glob.

    Raises:
        BrokerUnavailableError: the broker didn't give the changelog within ``timeout_s`` seconds.
        PolicyError: the file has changed since, and the values are impossible over it: the worker keeps to the file's.
    """
    layers = _layers(await read_known(settings, [explained.tool_name], timeout_s=timeout_s), explained.tool_name)
    sources = dict(explained.sources)
    for name, layer in layers:
        for key, value in json.loads(layer).items():
            for field in (f"{key}.{part}" for part in value) if isinstance(value, dict) else (key,):
                sources[field] = f"{_SET}{name}"
    policy = laid_over(explained.policy, [layer for _, layer in layers])
    return explained.model_copy(update={"policy": policy, "sources": sources})


def overridden(explained: Explanation) -> dict[str, str]:
    """The values that `policy set` gave: field to the name or glob that they were set for."""
    found = {field: source for field, source in explained.sources.items() if source.startswith(_SET)}
    return {field: source.removeprefix(_SET) for field, source in sorted(found.items())}


def _layers(known: Known, tool_name: str) -> list[tuple[str, bytes]]:
    """Name or glob and its values, topmost last."""
    found = [(glob, kept.tables[glob]) for kept in known.standing.values() for glob in kept.covering(tool_name)]
    row = known.circuits.get(tool_name)
    return found if row is None or row.policy is None else [*found, (tool_name, row.policy)]
