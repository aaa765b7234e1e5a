# Generated from tool_health.proto by `python -m switchgear_api.grpc.generate`.
# ruff: noqa: I001, ICN001, RUF023, UP007, UP045
# mypy: disable-error-code="type-arg"
# fmt: off
import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_STATUS_UNSPECIFIED: _ClassVar[HealthStatus]
    HEALTH_STATUS_HEALTHY: _ClassVar[HealthStatus]
    HEALTH_STATUS_DEGRADED: _ClassVar[HealthStatus]
    HEALTH_STATUS_UNHEALTHY: _ClassVar[HealthStatus]
    HEALTH_STATUS_UNKNOWN: _ClassVar[HealthStatus]
HEALTH_STATUS_UNSPECIFIED: HealthStatus
HEALTH_STATUS_HEALTHY: HealthStatus
HEALTH_STATUS_DEGRADED: HealthStatus
HEALTH_STATUS_UNHEALTHY: HealthStatus
HEALTH_STATUS_UNKNOWN: HealthStatus

class GetHealthSummaryRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class HealthSummary(_message.Message):
    __slots__ = ("overall_status", "total_tools", "healthy", "degraded", "unhealthy", "unknown", "tools", "checked_at")
    OVERALL_STATUS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOOLS_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CHECKED_AT_FIELD_NUMBER: _ClassVar[int]
    overall_status: HealthStatus
    total_tools: int
    healthy: int
    degraded: int
    unhealthy: int
    unknown: int
    tools: _containers.RepeatedCompositeFieldContainer[ToolSummary]
    checked_at: _timestamp_pb2.Timestamp
    def __init__(self, overall_status: _Optional[_Union[HealthStatus, str]] = ..., total_tools: _Optional[int] = ..., healthy: _Optional[int] = ..., degraded: _Optional[int] = ..., unhealthy: _Optional[int] = ..., unknown: _Optional[int] = ..., tools: _Optional[_Iterable[_Union[ToolSummary, _Mapping]]] = ..., checked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ToolSummary(_message.Message):
    __slots__ = ("tool_name", "status", "success_rate", "avg_latency_ms", "total_calls", "recent_errors", "caller_errors", "cancelled_calls")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    AVG_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CALLS_FIELD_NUMBER: _ClassVar[int]
    RECENT_ERRORS_FIELD_NUMBER: _ClassVar[int]
    CALLER_ERRORS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_CALLS_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    status: HealthStatus
    success_rate: float
    avg_latency_ms: float
    total_calls: int
    recent_errors: int
    caller_errors: int
    cancelled_calls: int
    def __init__(self, tool_name: _Optional[str] = ..., status: _Optional[_Union[HealthStatus, str]] = ..., success_rate: _Optional[float] = ..., avg_latency_ms: _Optional[float] = ..., total_calls: _Optional[int] = ..., recent_errors: _Optional[int] = ..., caller_errors: _Optional[int] = ..., cancelled_calls: _Optional[int] = ...) -> None: ...

class GetToolHealthRequest(_message.Message):
    __slots__ = ("tool_name", "tenant")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    tenant: str
    def __init__(self, tool_name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ToolHealthInfo(_message.Message):
    __slots__ = ("status", "total_calls", "successful_calls", "failed_calls", "success_rate", "avg_latency_ms", "last_success", "last_failure", "last_error", "caller_errors", "cancelled_calls")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CALLS_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_CALLS_FIELD_NUMBER: _ClassVar[int]
    FAILED_CALLS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    AVG_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    CALLER_ERRORS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_CALLS_FIELD_NUMBER: _ClassVar[int]
    status: HealthStatus
    total_calls: int
    successful_calls: int
    failed_calls: int
    success_rate: float
    avg_latency_ms: float
    last_success: _timestamp_pb2.Timestamp
    last_failure: _timestamp_pb2.Timestamp
    last_error: str
    caller_errors: int
    cancelled_calls: int
    def __init__(self, status: _Optional[_Union[HealthStatus, str]] = ..., total_calls: _Optional[int] = ..., successful_calls: _Optional[int] = ..., failed_calls: _Optional[int] = ..., success_rate: _Optional[float] = ..., avg_latency_ms: _Optional[float] = ..., last_success: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_failure: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., caller_errors: _Optional[int] = ..., cancelled_calls: _Optional[int] = ...) -> None: ...
