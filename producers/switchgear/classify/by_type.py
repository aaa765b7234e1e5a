"""Classify exceptions by the module and name of their types. No library is imported."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, NamedTuple

from switchgear_schemas.enums import ErrorClass

_NAMES: Final[tuple[tuple[str, ErrorClass, str], ...]] = (
    ("agent_framework", "policy", "MiddlewareTermination UserInputRequiredException"),
    ("agent_framework", "policy", "AgentContentFilterException ChatClientContentFilterException"),
    ("agent_framework", "policy", "IntegrationContentFilterException"),
    ("agent_framework", "tool", "ToolException"),
    ("agent_framework", "auth", "AgentInvalidAuthException ChatClientInvalidAuthException"),
    ("agent_framework", "auth", "IntegrationInvalidAuthException"),
    ("agent_framework", "invalid_input", "AgentInvalidRequestException ChatClientInvalidRequestException"),
    ("agent_framework", "invalid_input", "IntegrationInvalidRequestException"),
    ("agent_framework", "server", "AgentInvalidResponseException ChatClientInvalidResponseException"),
    ("agent_framework", "server", "IntegrationInvalidResponseException"),
    (
        "agents",
        "invalid_input",
        "ModelBehaviorError",
    ),  # openai-agents: the model called a tool that is missing, or wrongly
    ("agents", "timeout", "ModelTimeoutError ToolTimeoutError"),
    ("agents", "cancelled", "MCPToolCancellationError"),
    ("agents", "policy", "InputGuardrailTripwireTriggered ModelRefusalError OutputGuardrailTripwireTriggered"),
    ("agents", "policy", "ToolInputGuardrailTripwireTriggered ToolOutputGuardrailTripwireTriggered"),
    ("aiohttp", "transport", "ClientConnectionError ClientPayloadError"),
    ("aiohttp", "timeout", "ServerTimeoutError"),
    ("aiohttp", "server", "ContentTypeError TooManyRedirects"),
    ("aiohttp", "invalid_input", "InvalidURL NonHttpUrlClientError"),
    ("anthropic openai", "transport", "APIConnectionError"),
    ("anthropic openai", "timeout", "APITimeoutError"),
    ("anthropic openai", "server", "APIResponseValidationError"),
    ("anthropic", "auth", "CredentialsError IdentityTokenFileError WorkloadIdentityError"),
    ("anyio trio", "transport", "BrokenResourceError ClosedResourceError"),
    ("anyio", "transport", "EndOfStream"),
    ("asyncio concurrent", "cancelled", "CancelledError"),
    ("asyncpg", "transport", "InterfaceError PostgresConnectionError"),
    ("asyncpg", "invalid_input", "DataError"),
    ("botocore", "transport", "ChecksumError ConnectionError HTTPClientError IncompleteReadError"),
    ("botocore", "timeout", "ConnectTimeoutError ReadTimeoutError"),
    ("botocore", "server", "ResponseParserError"),
    ("botocore", "invalid_input", "NoRegionError ParamValidationError"),
    ("botocore", "auth", "CredentialRetrievalError NoAuthTokenError NoCredentialsError PartialCredentialsError"),
    ("botocore", "auth", "ProfileNotFound SSOError TokenRetrievalError"),
    (
        "claude_agent_sdk",
        "transport",
        "CLIConnectionError",
    ),  # CLINotFoundError too: no call works before it is installed
    ("claude_agent_sdk", "server", "CLIJSONDecodeError MessageParseError"),
    ("crewai", "policy", "HumanFeedbackPending LLMCallBlockedError ToolUsageLimitExceededError"),
    ("crewai", "invalid_input", "LLMContextLengthExceededError"),
    ("crewai", "tool", "ToolExecutionFailedError ToolUsageError"),
    ("fastmcp", "auth", "AuthorizationError"),
    ("fastmcp mcp", "invalid_input", "DisabledError NotFoundError ResourceNotFoundError ValidationError"),
    ("fastmcp mcp mcp_types", "tool", "PromptError ResourceError ToolError"),
    ("google", "policy", "NodeInterruptedError"),  # google-adk
    ("google", "timeout", "NodeTimeoutError"),
    ("google", "tool", "ToolExecutionError"),
    ("grpc", "timeout", "FutureTimeoutError"),
    ("grpc", "cancelled", "FutureCancelledError"),
    ("http", "transport", "HTTPException"),
    ("http", "invalid_input", "InvalidURL"),
    ("httpcore httpcore2", "transport", "NetworkError ProtocolError ProxyError"),
    ("httpcore httpcore2", "timeout", "TimeoutException"),
    ("httpcore httpcore2", "invalid_input", "UnsupportedProtocol"),
    ("httpx httpx2", "transport", "TransportError"),
    ("httpx httpx2", "timeout", "TimeoutException"),
    ("httpx httpx2", "server", "DecodingError TooManyRedirects"),
    ("httpx httpx2", "invalid_input", "InvalidURL LocalProtocolError UnsupportedProtocol"),
    ("langchain_core", "tool", "ToolException"),
    ("langgraph", "policy", "GraphBubbleUp"),  # an interrupt, a handoff, a drained run
    ("langgraph", "timeout", "NodeTimeoutError"),
    ("langgraph", "invalid_input", "ToolInvocationError"),
    ("llama_index workflows", "policy", "WaitingForEvent"),
    ("llama_index workflows", "timeout", "WorkflowTimeoutError"),
    ("mcp", "policy", "InputRequiredRoundsExceededError"),
    ("mcp", "unknown", "UnexpectedResourceError UnexpectedToolError"),  # the tool crashed
    ("openai", "tool", "LengthFinishReasonError"),
    ("openai", "policy", "ContentFilterFinishReasonError"),
    ("playwright", "timeout", "TimeoutError"),
    ("psycopg psycopg2", "transport", "InterfaceError OperationalError"),
    ("psycopg psycopg2", "server", "InternalError"),
    ("psycopg psycopg2", "invalid_input", "DataError IntegrityError NotSupportedError ProgrammingError"),
    ("pydantic_ai", "policy", "ApprovalRequired CallDeferred ContentFilterError"),
    ("pydantic_ai", "invalid_input", "ModelRequestRejectedError ModelRetry ToolRetryError"),
    ("pydantic_ai", "tool", "ToolFailed ToolFailedError UnexpectedModelBehavior"),
    ("pydantic_ai", "transport", "ModelConnectionError"),
    ("pydantic_ai", "timeout", "ModelRequestTimeout ModelTimeoutError RunTimedOut"),
    ("pydantic_ai", "cancelled", "RunCancelled"),
    ("pydantic_ai", "rate_limited", "ModelQuotaExceededError ModelRateLimitError"),
    ("pydantic_ai", "server", "ModelServerError ModelUnavailableError"),
    ("pydantic_ai", "auth", "ModelAuthenticationError"),
    ("pydantic_core", "invalid_input", "ValidationError"),
    ("redis", "transport", "ConnectionError"),
    ("redis", "timeout", "TimeoutError"),
    ("redis", "server", "BusyLoadingError ClusterDownError ReadOnlyError TryAgainError"),
    ("redis", "invalid_input", "DataError ResponseError"),
    ("redis", "auth", "AuthenticationError NoPermissionError"),
    ("requests", "transport", "ChunkedEncodingError ConnectionError"),
    ("requests", "timeout", "ConnectTimeout Timeout"),
    ("requests", "server", "ContentDecodingError JSONDecodeError RetryError TooManyRedirects"),
    # InvalidJSONError is of the request; an answer raises JSONDecodeError.
    ("requests", "invalid_input", "InvalidHeader InvalidJSONError InvalidSchema InvalidURL MissingSchema"),
    ("selenium", "timeout", "TimeoutException"),
    ("sqlalchemy", "timeout", "TimeoutError"),
    ("sqlite3", "invalid_input", "DataError IntegrityError ProgrammingError"),
    ("subprocess", "timeout", "TimeoutExpired"),
    ("subprocess", "tool", "CalledProcessError"),
    ("switchgear", "timeout", "CallTimeoutError"),
    ("switchgear_schemas", "transport", "BrokerUnavailableError StoreUnavailableError"),
    ("switchgear_schemas", "policy", "SwitchgearError"),  # a circuit or a budget refused another tool within this one
    ("trio", "timeout", "TooSlowError"),
    ("trio", "cancelled", "Cancelled"),
    ("urllib3", "transport", "HTTPError NameResolutionError NewConnectionError"),
    ("urllib3", "timeout", "TimeoutError"),
    ("urllib3", "server", "DecodeError ResponseError"),
    ("urllib3", "invalid_input", "LocationValueError"),
    ("websockets", "transport", "ConnectionClosed InvalidHandshake"),
)
"""Libraries, the class of a failure, and the names of its exceptions in these libraries."""

_CLASSES: Final[dict[tuple[str, str], ErrorClass]] = {
    (library, name): error_class
    for libraries, error_class, names in _NAMES
    for library in libraries.split()
    for name in names.split()
}

_BUILTIN: Final[tuple[tuple[tuple[type[BaseException], ...], ErrorClass], ...]] = (
    ((TimeoutError,), "timeout"),
    ((json.JSONDecodeError, UnicodeDecodeError), "server"),
    ((PermissionError,), "auth"),
    ((FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, TypeError), "invalid_input"),
    ((OSError, EOFError), "transport"),
    ((ValueError,), "invalid_input"),
)
"""The first match decides, so subclasses come before their bases."""


class ErrorType(NamedTuple):
    """What is known about a type of exceptions."""

    libraries: frozenset[str]
    """The top-level modules of the type and its bases."""
    by_library: ErrorClass | None
    """The class of the first known type of a library in the method resolution order."""
    by_builtin: ErrorClass | None
    """The class of the built-in exception that the type is or derives from."""


def type_of(error: BaseException) -> ErrorType:
    """Return what is known about the type of ``error``."""
    kind: Any = type(error)  # for mypy, which takes a type for unhashable
    return _examined(kind)


@lru_cache(maxsize=256)  # a tool fails with few types
def _examined(kind: type[BaseException]) -> ErrorType:
    names = [(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__]
    return ErrorType(
        frozenset(library for library, _ in names),
        next((_CLASSES[name] for name in names if name in _CLASSES), None),
        next((named for builtins, named in _BUILTIN if issubclass(kind, builtins)), None),
    )
