"""The guard's form of a ToolExecution, which is cheap to make and to encode."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from switchgear_schemas.enums import ErrorClass, Evidence, ServedBy, Status


class Event(msgspec.Struct, omit_defaults=True):
    """The fields of ToolExecution, with its names, units and defaults. A field with its default is not sent.

    The emitter fills in ``metric_id``, ``recorded_at``, ``emitter_id`` and ``service`` if they are missing.
    """

    tool_name: str
    status: Status
    execution_time_ms: float = 0.0
    generation: int | None = None
    lease_id: str | None = None
    metric_id: str | None = None
    tenant: str = ""
    user_id: str = ""
    session_id: str | None = None
    request_id: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_class: ErrorClass | None = None
    retry_after_s: float | None = None
    parameters_hash: str | None = None
    input_size: int = 0
    output_size: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float = 0.0
    served_by: ServedBy = "call"
    fallback_tool: str | None = None
    emitter_id: str = ""
    service: str = ""
    probe_requested: bool = False
    traceparent: str | None = None
    metadata: dict[str, Any] | None = None
    recorded_at: datetime | None = None
    family_generation: int | None = None
    family_lease_id: str | None = None
    target: str | None = None
    overdue_ms: float | None = None
    credential: str | None = None
    evidence: Evidence = "full"
