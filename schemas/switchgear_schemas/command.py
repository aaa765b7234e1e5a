"""The contract of the ``switchgear.commands`` topic: commands of an operator. The key is the tool's family, or its name without one."""

from __future__ import annotations

import json
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from switchgear_schemas.circuit_ids import MAX_CIRCUIT_ID_LENGTH, circuit_id
from switchgear_schemas.enums import EARLIEST, LATEST, MAX_NAME_LENGTH, Verb
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.policy import OWN_FALLBACK, BreakerPolicy
from switchgear_schemas.wire_record import Instant, WireRecord, readable

__all__ = ["Command", "Verb"]

MAX_REASON_LENGTH: Final = 1_000
"""Characters. Each circuit of the tool keeps a copy."""
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]


@readable
class Command(WireRecord, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command of an operator. The circuit's owner applies commands in the order of the log, and each ``command_id`` once.

    ``from_dict`` checks every field, and the constructor only whether the fields fit together.

    Raises:
        ValueError: The fields contradict each other.
    """

    command_id: UUID = msgspec.field(default_factory=lambda: UUID(mint_metric_id()))
    tool_name: _Name
    verb: Verb
    actor: Annotated[_Name, Meta(description="Who gives the command.")]
    reason: Annotated[str, Meta(max_length=MAX_REASON_LENGTH, description="Why.")] = ""
    until: Annotated[
        Instant | None,
        Meta(
            description="force_open: open until this instant, then probes. disable, metrics_only: until this instant, then as after auto."
        ),
    ] = None
    circuit_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_CIRCUIT_ID_LENGTH)] | None,
        Meta(
            description="Only this circuit of the tool (a user's, a session's or a target's). Null: all its circuits, also future ones."
            " A family has one circuit, family|family, and tool_name is the family."
        ),
    ] = None
    policy: Annotated[
        BreakerPolicy | None,
        Meta(
            description="set_policy only: the values given here override the policy file's. {} removes the values set before."
        ),
    ] = None

    def to_bytes(self) -> bytes:
        """Return the message to send. Of a policy it holds only the values that were given."""
        return json.dumps(self.to_dict()).encode()

    def __post_init__(self) -> None:
        if (self.verb == "set_policy") != (self.policy is not None):
            raise ValueError("policy is required by set_policy and allowed with nothing else")
        if self.until is not None and self.verb not in {"force_open", "disable", "metrics_only"}:
            raise ValueError("until is allowed with force_open, disable and metrics_only")
        if self.until is not None and not EARLIEST <= self.until < LATEST:
            raise ValueError(f"until must lie between {EARLIEST.year} and {LATEST.year}")
        if self.circuit_id not in {None, circuit_id(self.tool_name, "family")} and self.verb == "set_policy":
            raise ValueError("set_policy takes no circuit_id, because a policy applies to the whole tool")
        if self.policy is not None and self.tool_name in self.policy.fallback:
            raise ValueError(OWN_FALLBACK)
