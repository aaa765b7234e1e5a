"""The contract of the ``switchgear.executions`` topic: one event per tool call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue

from switchgear_schemas.enums import (
    EARLIEST,
    LATEST,
    MAX_EVENT_BYTES,
    MAX_NAME_LENGTH,
    ErrorClass,
    Evidence,
    ServedBy,
    Status,
    normal_status,
)
from switchgear_schemas.execution_fields import ExecutionFields
from switchgear_schemas.execution_record import Execution
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.struct_schema import struct_schema

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_EVENT_BYTES",
    "MAX_NAME_LENGTH",
    "ErrorClass",
    "Evidence",
    "ServedBy",
    "Status",
    "ToolExecution",
    "ToolMetric",
]


def _in_utc(moment: datetime) -> datetime:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if not EARLIEST <= aware < LATEST:
        raise ValueError(f"must lie between {EARLIEST.year} and {LATEST.year}, got {aware.isoformat()}")
    return aware


def _text(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value


Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""An instant. One without a time zone is taken as UTC."""
Identifier = Annotated[str, BeforeValidator(_text)]
_MADE: Final = ("metric_id", "metadata", "recorded_at")
"""Fields that a writer may leave out but that are never null: their default is made for each execution."""


class ToolExecution(ExecutionFields):
    """One call of one tool, as its caller saw it. Only ``tool_name`` and ``status`` are required.

    Unknown fields are kept. A null field is the same as an absent one. A status ``error`` or ``timeout`` with the class ``cancelled``
    becomes ``cancelled``. Times are in UTC, durations in milliseconds, sizes in bytes or characters.

    Raises:
        pydantic.ValidationError: A value has the wrong type or is out of range. The error names the field.
    """

    model_config = ConfigDict(extra="allow", frozen=True, ser_json_timedelta="float", allow_inf_nan=False)

    metric_id: UUID = Field(default_factory=lambda: UUID(mint_metric_id()))
    session_id: Identifier | None = None
    request_id: Identifier | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    recorded_at: Moment = Field(default_factory=lambda: datetime.now(UTC))

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = {name: value for name, value in data.items() if value is not None or name not in cls.model_fields}
        if "status" in given:
            given["status"] = normal_status(given["status"], given.get("error_class"))
        return given

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: Any, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema of the record on the wire."""
        schema = struct_schema(Execution) | {"title": cls.__name__, "additionalProperties": True}
        for name in _MADE:
            field = schema["properties"][name]
            field.update(field.pop("anyOf")[0])
            del field["default"]
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-ready values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ToolExecution:
        """Make an execution from the values of :meth:`to_dict`, or from any other JSON object that is valid."""
        return cls.model_validate(data)


ToolMetric = ToolExecution
"""The name of the same model in the reference documents."""
