"""Does a topic that exists agree with what the settings want? A pure comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from switchgear_schemas.topics import TopicDefinition

TopicStatus = Literal["created", "ok", "differs"]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the cluster has it; ``config`` holds the values in force, defaults included."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One property that is not as wanted: ``partitions``, ``replication_factor`` or a configuration key."""

    name: str
    wanted: str
    found: str


@dataclass(frozen=True, slots=True)
class TopicReport:
    """What became of one topic."""

    name: str
    status: TopicStatus
    differences: tuple[Difference, ...] = ()


def differences(wanted: TopicDefinition, found: FoundTopic) -> tuple[Difference, ...]:
    """Every property of ``found`` that is not as ``wanted``, partitions and replication first."""
    pairs: list[tuple[str, str, str | None]] = [
        ("partitions", str(wanted.partitions), str(found.partitions)),
        ("replication_factor", str(wanted.replication_factor), str(found.replication_factor)),
        *((key, value, found.config.get(key)) for key, value in wanted.config.items()),
    ]
    return tuple(
        Difference(name, want, "(not set)" if have is None else have)
        for name, want, have in pairs
        if have is None or _normal(want) != _normal(have)
    )


def _normal(value: str) -> object:
    """``compact,delete`` is ``delete,compact``, and ``0.10`` is ``0.1``."""
    try:
        return float(value)
    except ValueError:
        return sorted(part.strip() for part in value.split(","))
