"""Classify exceptions by the module and name of their types. No library is imported."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from switchgear_schemas.enums import ErrorClass

_SAME_LIBRARY: Final = {"httpx2": "httpx", "httpcore2": "httpcore", "psycopg2": "psycopg", "mcp_types": "mcp"}
"""Successors and forks that have the same names."""

_NAMES: Final[dict[str, dict[ErrorClass, str]]] = {
    "aiohttp": {
        "transport": "ClientConnectionError ClientPayloadError",
        "timeout": "ServerTimeoutError",
        "server": "ContentTypeError TooManyRedirects",
        "invalid_input": "InvalidURL NonHttpUrlClientError",
    },
    "anthropic": {
        "transport": "APIConnectionError",
        "timeout": "APITimeoutError",
        "server": "APIResponseValidationError",
        "auth": "CredentialsError IdentityTokenFileError WorkloadIdentityError",
    },
    "anyio": {"transport": "BrokenResourceError ClosedResourceError EndOfStream"},
    "asyncio": {"cancelled": "CancelledError"},
    "asyncpg": {
        "transport": "InterfaceError PostgresConnectionError",
        "invalid_input": "DataError",
    },
    "botocore": {
        "transport": "ChecksumError ConnectionError HTTPClientError IncompleteReadError",
        "timeout": "ConnectTimeoutError ReadTimeoutError",
        "server": "ResponseParserError",
        "invalid_input": "NoRegionError ParamValidationError",
        "auth": "CredentialRetrievalError NoAuthTokenError NoCredentialsError PartialCredentialsError ProfileNotFound"
        " SSOError TokenRetrievalError",
    },
    "concurrent": {"cancelled": "CancelledError"},
    "fastmcp": {"tool": "ToolError"},
    "grpc": {
        "timeout": "FutureTimeoutError",
        "cancelled": "FutureCancelledError",
    },
    "http": {
        "transport": "HTTPException",
        "invalid_input": "InvalidURL",
    },
    "httpcore": {
        "transport": "NetworkError ProtocolError ProxyError",
        "timeout": "TimeoutException",
        "invalid_input": "UnsupportedProtocol",
    },
    "httpx": {
        "transport": "TransportError",
        "timeout": "TimeoutException",
        "server": "DecodingError TooManyRedirects",
        "invalid_input": "InvalidURL LocalProtocolError UnsupportedProtocol",
    },
    "langchain_core": {"tool": "ToolException"},
    "mcp": {"tool": "ToolError"},
    "openai": {
        "transport": "APIConnectionError",
        "timeout": "APITimeoutError",
        "server": "APIResponseValidationError",
        "tool": "LengthFinishReasonError",
        "policy": "ContentFilterFinishReasonError",
    },
    "playwright": {"timeout": "TimeoutError"},
    "psycopg": {
        "transport": "InterfaceError OperationalError",
        "server": "InternalError",
        "invalid_input": "DataError IntegrityError NotSupportedError ProgrammingError",
    },
    "pydantic_core": {"invalid_input": "ValidationError"},
    "redis": {
        "transport": "ConnectionError",
        "timeout": "TimeoutError",
        "server": "BusyLoadingError ClusterDownError ReadOnlyError TryAgainError",
        "invalid_input": "DataError ResponseError",
        "auth": "AuthenticationError NoPermissionError",
    },
    "requests": {
        "transport": "ChunkedEncodingError ConnectionError",
        "timeout": "ConnectTimeout Timeout",
        "server": "ContentDecodingError JSONDecodeError RetryError TooManyRedirects",
        # InvalidJSONError is of the request; an answer raises JSONDecodeError.
        "invalid_input": "InvalidHeader InvalidJSONError InvalidSchema InvalidURL MissingSchema",
    },
    "selenium": {"timeout": "TimeoutException"},
    "sqlalchemy": {"timeout": "TimeoutError"},
    "sqlite3": {"invalid_input": "DataError IntegrityError ProgrammingError"},
    "subprocess": {
        "timeout": "TimeoutExpired",
        "tool": "CalledProcessError",
    },
    "switchgear": {"timeout": "CallTimeoutError"},
    "switchgear_schemas": {
        "transport": "BrokerUnavailableError StoreUnavailableError",
        "policy": "SwitchgearError",  # a circuit or a budget refused another tool within this one
    },
    "trio": {
        "transport": "BrokenResourceError ClosedResourceError",
        "timeout": "TooSlowError",
        "cancelled": "Cancelled",
    },
    "urllib3": {
        "transport": "HTTPError NameResolutionError NewConnectionError",
        "timeout": "TimeoutError",
        "server": "DecodeError ResponseError",
        "invalid_input": "LocationValueError",
    },
    "websockets": {"transport": "ConnectionClosed InvalidHandshake"},
}

_CLASSES: Final[dict[tuple[str, str], ErrorClass]] = {
    (library, name): error_class
    for library, classes in _NAMES.items()
    for error_class, names in classes.items()
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


def by_library(error: BaseException) -> ErrorClass | None:
    """Return the class of the first known type in the method resolution order, or None."""
    kind: Any = type(error)  # for mypy, which takes a type for unhashable
    return _by_library(kind)


def by_builtin(error: BaseException) -> ErrorClass | None:
    """Return the class of the built-in exception that the type is or derives from, or None."""
    kind: Any = type(error)
    return _by_builtin(kind)


@lru_cache(maxsize=256)  # a tool fails with few types
def _by_library(found: type[BaseException]) -> ErrorClass | None:
    for kind in found.__mro__:
        library = kind.__module__.partition(".")[0]
        named = _CLASSES.get((_SAME_LIBRARY.get(library, library), kind.__name__))
        if named is not None:
            return named
    return None


@lru_cache(maxsize=256)
def _by_builtin(found: type[BaseException]) -> ErrorClass | None:
    return next((named for kinds, named in _BUILTIN if issubclass(found, kinds)), None)
