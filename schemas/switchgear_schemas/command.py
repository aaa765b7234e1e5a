"""Command: what an operator tells a circuit, the contract of the ``switchgear.commands`` topic (key = tool name)."""

from __future__ import annotations

from typing import Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from switchgear_schemas.execution import MAX_NAME_LENGTH
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.policy import BreakerPolicy

Verb = Literal["set_policy", "force_open", "close", "reset", "disable", "metrics_only", "auto"]


class Command(BaseModel):
    """Applied by the circuit's owner, in the order of the log; the same ``command_id`` twice changes nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command_id: UUID = Field(default_factory=lambda: UUID(mint_metric_id()))
    tool_name: str = Field(min_length=1, max_length=MAX_NAME_LENGTH)
    verb: Verb
    actor: str = Field(min_length=1, description="Who commands it.")
    reason: str = Field(default="", description="Why.")
    until: AwareDatetime | None = Field(default=None, description="force_open only: open until this instant.")
    policy: BreakerPolicy | None = Field(default=None, description="set_policy only.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.verb == "set_policy") != (self.policy is not None):
            raise ValueError("policy is required by set_policy and allowed with nothing else")
        if self.until is not None and self.verb != "force_open":
            raise ValueError("until is allowed with force_open only")
        return self
