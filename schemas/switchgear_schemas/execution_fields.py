"""The fields of an execution for pydantic. Generated from ``switchgear_schemas.execution_record`` by ``make schemas``: change that module."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from switchgear_schemas.enums import ErrorClass, Evidence, ServedBy, Status


class ExecutionFields(BaseModel):
    """The fields with their limits and defaults. A field that may be null is null by default."""

    tool_name: str = Field(min_length=1, max_length=256)
    status: Status
    execution_time_ms: float = Field(default=0.0, ge=0, le=31_536_000_000)
    generation: int | None = Field(default=None, ge=0, le=9_223_372_036_854_775_807)
    lease_id: str | None = None
    metric_id: UUID | None = None
    tenant: str = Field(default="", max_length=256)
    user_id: str = ""
    session_id: str | None = None
    request_id: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_class: ErrorClass | None = None
    retry_after_s: float | None = Field(default=None, ge=0)
    parameters_hash: str | None = None
    input_size: int = Field(default=0, ge=0, le=1_099_511_627_776)
    output_size: int = Field(default=0, ge=0, le=1_099_511_627_776)
    input_tokens: int = Field(default=0, ge=0, le=1_000_000_000)
    output_tokens: int = Field(default=0, ge=0, le=1_000_000_000)
    cache_creation_tokens: int = Field(default=0, ge=0, le=1_000_000_000)
    cost_usd: float = Field(default=0.0, ge=0, le=1_000_000)
    served_by: ServedBy = "call"
    fallback_tool: str | None = None
    emitter_id: str = ""
    service: str = ""
    probe_requested: bool = False
    traceparent: str | None = None
    metadata: dict[str, Any] | None = None
    recorded_at: datetime | None = None
    family_generation: int | None = Field(default=None, ge=0, le=9_223_372_036_854_775_807)
    family_lease_id: str | None = None
    target: str | None = Field(default=None, max_length=256)
    overdue_ms: float | None = Field(default=None, ge=0, le=31_536_000_000)
    credential: str | None = Field(default=None, max_length=64)
    evidence: Evidence = "full"
    reporter: str = ""
