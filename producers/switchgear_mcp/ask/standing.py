"""How a tool stands now: what its own circuit and that of its server say, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from switchgear.model_text import error_in_words, name_for_model
from switchgear_mcp.ask.words import any_of, clock, counted, instant, iso, names
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.enums import BROKEN
from switchgear_schemas.explain import OPENING, explain

Verdict = Literal["available", "recovering", "probing", "down", "unknown"]
"""``probing`` and ``down`` refuse calls; ``recovering`` refuses some; ``unknown``: the token may not see it."""
REFUSING: Final[frozenset[Verdict]] = frozenset({"down", "probing"})
_MEASURED: Final = (
    "rule", "value", "threshold", "sample", "failed", "window_s", "slow_call_duration_threshold_ms",
    "tolerable_failure_rate", "calls_between_false_opens", "reporters", "tools",
)  # fmt: skip
"""Fields of a cause that have numbers. The others have words of an operator or of a process."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a tool or a server stands.

    Args:
        name: Name of the tool, or of the server.
        record: The circuit that decides, as the API answers it. None: no circuit is known, so calls go.
        tool: The tool, if the circuit of its server decides.
        unseen: The token may not see the tool.
        avoid: Tools that are down themselves.
        local: How many processes refuse calls on their own evidence.
    """

    name: str
    record: Mapping[str, Any] | None = None
    tool: str | None = None
    unseen: bool = False
    avoid: frozenset[str] = frozenset()
    local: int = 0

    @property
    def is_server(self) -> bool:
        """Whether this is a server, and so all its tools."""
        return self.record is not None and self.record.get("scope") == "family"

    @property
    def state(self) -> str:
        """The circuit's state."""
        return "closed" if self.record is None else str(self.record.get("state"))

    @property
    def verdict(self) -> Verdict:
        """Whether calls go."""
        if self.unseen:
            return "unknown"
        if self.state in BROKEN:
            return "probing" if self.state == "half_open" else "down"
        return "recovering" if self.state == "closed" and _admitted(self.record) < 1 else "available"

    @property
    def since(self) -> datetime | None:
        """When the state changed."""
        return None if self.record is None else instant(self.record.get("changed_at"))

    @property
    def not_before(self) -> datetime | None:
        """When a call may be tried. None: that isn't known."""
        if self.record is None or self.verdict != "down":
            return None
        return instant(self.record.get("open_until")) or instant(self.record.get("stands_until"))

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The fallbacks of the fleet's policy, best first."""
        found = () if self.record is None else self.record.get("fallback") or ()
        return tuple(each for each in found if isinstance(each, str))

    @property
    def instead(self) -> tuple[str, ...]:
        """The fallbacks that aren't down themselves."""
        return tuple(each for each in self.fallbacks if each not in self.avoid)

    @property
    def commanded(self) -> bool:
        """Whether an operator decides."""
        return self.state == "forced_open" or (self._cause.get("rule") == "command" and self.state != "closed")

    @property
    def _cause(self) -> Mapping[str, Any]:
        found = None if self.record is None else self.record.get("cause")
        return found if isinstance(found, Mapping) else {}

    def sentences(self, now: datetime) -> str:
        """Return what a model should know, on one line."""
        return " ".join(filter(None, (self._what(now), self.why(), self._local(), self._when(now), self._else())))

    def why(self) -> str:
        """Return why the circuit refuses calls. Empty if it doesn't, or if an operator decides."""
        if self.verdict not in REFUSING or self.commanded:
            return ""
        rule, error = self._cause.get("rule"), self._error()
        said = f"The rule {rule} opened it{self._measured()}." if rule in OPENING else ""
        return " ".join(filter(None, (said, f"Its last error was {error}." if error else "")))

    def data(self) -> dict[str, object]:
        """Return the same as values."""
        rule = self._cause.get("rule")
        return {
            "tool": name_for_model(self.tool or self.name),
            "server": name_for_model(self.name) if self.is_server else None,
            "verdict": self.verdict,
            "state": self.state,
            "since": iso(self.since),
            "not_before": iso(self.not_before),
            "rule": rule if rule in OPENING else None,
            "by_operator": self.commanded,
            "local_processes": self.local,
            "instead": names(self.instead[:10]),
        }

    def _what(self, now: datetime) -> str:
        since = "" if self.since is None else f" since {clock(self.since, now)}"
        name = name_for_model(self.tool or self.name)
        if self.is_server:
            server = name_for_model(self.name)
            name = f"All tools of {server}" if self.tool is None else f"{name} and all other tools of {server}"
        verb = "are" if self.is_server else "is"
        match self.verdict:
            case "unknown":
                return f"{name}: this token may not see it."
            case "available":
                return f"{name} {verb} available."
            case "recovering":
                return f"{name} {verb} recovering{since}: {_admitted(self.record):.0%} of the calls go."
            case "probing":
                return f"{name} {verb} being tested{since}: single calls go, the others are refused."
        if self.commanded:
            return f"{name} {verb} unavailable{since}: an operator stopped the calls."
        return f"{name} {verb} unavailable{since} (circuit open)."

    def _local(self) -> str:
        if not self.local or self.verdict in REFUSING:
            return ""
        return f"But {counted(self.local, 'process', 'processes')} refused calls of their own in the last minutes, on their own evidence."

    def _when(self, now: datetime) -> str:
        if self.verdict != "down":
            return ""
        it = "them" if self.is_server else "it"
        if self.not_before is None:
            return f"Do not call {it} until further notice."
        if self.not_before <= now:
            return f"The wait is over: the next call of {it} may go as a test."
        return f"Do not call {it} before {clock(self.not_before, now)}."

    def _else(self) -> str:
        return f"Use {any_of(self.instead)} instead." if self.instead and self.verdict != "available" else ""

    def _error(self) -> str:
        record = self.record or {}
        kind, error = record.get("last_error_class"), record.get("last_error")
        return error_in_words(kind if isinstance(kind, str) else None, error if isinstance(error, str) else None)

    def _measured(self) -> str:
        if self._cause.get("value") is None:  # what is measured over all tenants' calls is hidden from one
            return ""
        return ": " + explain({name: self._cause.get(name) for name in _MEASURED}, None, state=self.state)


def standing_of(tool: str, family: str | None, circuits: Iterable[Mapping[str, Any]]) -> Standing:
    """Return how a tool stands: the circuit of its server decides if it refuses calls, else its own.

    Args:
        tool: The tool, or a server.
        family: The tool's server.
        circuits: Circuits as the API answers them; those of others are skipped.
    """
    own_ids = {circuit_id(tool), circuit_id(tool, "family")}
    family_id = None if family is None else circuit_id(family, "family")
    own, server = Standing(tool), None
    for each in circuits:
        if each.get("circuit_id") in own_ids:
            own = Standing(tool, each)
        elif each.get("circuit_id") == family_id and family is not None:
            server = Standing(family, each, tool)
    return server if server is not None and server.verdict in REFUSING else own


def _admitted(record: Mapping[str, Any] | None) -> float:
    share = 1.0 if record is None else record.get("admitted_share")
    return share if isinstance(share, float | int) else 1.0
