"""What arrived, and why tool calls of a source may be missing: spans that no mapping reads, and calls that can't be used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from switchgear.redaction import redact
from switchgear_gateway.otlp.records import Span

MOST: Final = 50
"""Kinds that a tally counts one by one. Further ones are counted together."""
OTHERS: Final = "(others)"
_MAX_TEXT: Final = 100
_TOOLISH: Final = re.compile(
    r"(?<![a-z])tools?(?![a-z])|tool[_.-]?(?:call|use|run|exec)|(?:call|use|run|execute|invoke)[_.-]?tool"
    r"|function[_.-]?call|\.__call__$",
    re.IGNORECASE,
)
_LISTING: Final = re.compile(r"list[_ ./-]?tools|tools[_ ./-]?list", re.IGNORECASE)
_NAMED: Final = ("tool.name", "tool_name", "toolName")
_KINDS: Final = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "ai.operationId",
    "mcp.method.name",
)
"""Attributes in which a span of a known convention says what it is."""


def looks_like_a_tool(span: Span) -> bool:
    """Return whether a span that no mapping reads may be a tool call: its name says so, or an attribute names a tool.

    A span of a known convention says what it is, and isn't one.
    """
    found = span.attributes
    if any(kind in found for kind in _KINDS) or "tool" not in str(found.get("gen_ai.operation.name", "tool")):
        return False
    name = span.name[:200]
    return bool(_TOOLISH.search(name) and not _LISTING.search(name)) or any(key.endswith(_NAMED) for key in found)


class Counted(NamedTuple):
    """One line of a tally."""

    what: str
    number: int
    example: str


class Tally:
    """Counts by tenant and by a text that its sender chooses. Bounded: the first kinds are counted one by one, with an example each."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, str]] = {}
        self.total = 0

    def note(self, tenant: str, what: str, example: str = "") -> None:
        """Count one."""
        self.total += 1
        key = tenant, redact(what[:_MAX_TEXT])
        if key not in self._counts and len(self._counts) >= MOST:
            key, example = ("", OTHERS), ""
        number, first = self._counts.get(key, (0, redact(example[:_MAX_TEXT])))
        self._counts[key] = number + 1, first

    def of(self, tenant: str | None) -> list[Counted]:
        """Return the counts of a tenant, those of all tenants for None. The highest comes first."""
        found = [
            Counted(what, number, example)
            for (owner, what), (number, example) in self._counts.items()
            if tenant is None or owner == tenant
        ]
        return sorted(found, key=lambda each: -each.number)


@dataclass(slots=True)
class IngestCounts:
    """What arrived since the start."""

    records: int = 0
    """Spans and log records."""
    calls: int = 0
    """Tool calls that were acknowledged."""
    rejected: int = 0
    """Tool calls that can't be used."""
    lost: int = 0
    """Calls that waited for a better span and could not be sent afterwards."""
    unmatched: Tally = field(default_factory=Tally)
    """Spans that look like tool calls and that no mapping reads, by instrumentation library."""
    refused: Tally = field(default_factory=Tally)
    """The rejected calls by reason."""
