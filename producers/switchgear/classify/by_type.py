"""Classify exceptions by the module and name of their types. No library is imported."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from switchgear_schemas.enums import ErrorClass

_SAME_LIBRARY: Final = {"httpx2": "httpx", "httpcore2": "httpcore", "psycopg2": "psycopg", "mcp_types": "mcp"}
"""Successors and forks that have the same names."""

_NAMES: Final[dict[str, dict[str, ErrorClass]]] = {
    "aiohttp": {
        "ClientConnectionError": "transport",
        "ClientPayloadError": "transport",
        "ContentTypeError": "server",
        "InvalidURL": "invalid_input",
        "NonHttpUrlClientError": "invalid_input",
        "ServerTimeoutError": "timeout",
        "TooManyRedirects": "server",
    },
    "anthropic": {
        "APIConnectionError": "transport",
        "APIResponseValidationError": "server",
        "APITimeoutError": "timeout",
        "CredentialsError": "auth",
        "IdentityTokenFileError": "auth",
        "WorkloadIdentityError": "auth",
    },
    "anyio": {
        "BrokenResourceError": "transport",
        "ClosedResourceError": "transport",
        "EndOfStream": "transport",
    },
    "asyncio": {"CancelledError": "cancelled"},
    "asyncpg": {
        "DataError": "invalid_input",
        "InterfaceError": "transport",
        "PostgresConnectionError": "transport",
    },
    "botocore": {
        "ChecksumError": "transport",
        "ConnectTimeoutError": "timeout",
        "ConnectionError": "transport",
        "CredentialRetrievalError": "auth",
        "HTTPClientError": "transport",
        "IncompleteReadError": "transport",
        "NoAuthTokenError": "auth",
        "NoCredentialsError": "auth",
        "NoRegionError": "invalid_input",
        "ParamValidationError": "invalid_input",
        "PartialCredentialsError": "auth",
        "ProfileNotFound": "auth",
        "ReadTimeoutError": "timeout",
        "ResponseParserError": "server",
        "SSOError": "auth",
        "TokenRetrievalError": "auth",
    },
    "concurrent": {"CancelledError": "cancelled"},
    "fastmcp": {"ToolError": "tool"},
    "grpc": {"FutureCancelledError": "cancelled", "FutureTimeoutError": "timeout"},
    "http": {"HTTPException": "transport", "InvalidURL": "invalid_input"},
    "httpcore": {
        "NetworkError": "transport",
        "ProtocolError": "transport",
        "ProxyError": "transport",
        "TimeoutException": "timeout",
        "UnsupportedProtocol": "invalid_input",
    },
    "httpx": {
        "DecodingError": "server",
        "InvalidURL": "invalid_input",
        "LocalProtocolError": "invalid_input",
        "TimeoutException": "timeout",
        "TooManyRedirects": "server",
        "TransportError": "transport",
        "UnsupportedProtocol": "invalid_input",
    },
    "langchain_core": {"ToolException": "tool"},
    "mcp": {"ToolError": "tool"},
    "openai": {
        "APIConnectionError": "transport",
        "APIResponseValidationError": "server",
        "APITimeoutError": "timeout",
        "ContentFilterFinishReasonError": "policy",
        "LengthFinishReasonError": "tool",
    },
    "playwright": {"TimeoutError": "timeout"},
    "psycopg": {
        "DataError": "invalid_input",
        "IntegrityError": "invalid_input",
        "InterfaceError": "transport",
        "InternalError": "server",
        "NotSupportedError": "invalid_input",
        "OperationalError": "transport",
        "ProgrammingError": "invalid_input",
    },
    "pydantic_core": {"ValidationError": "invalid_input"},
    "redis": {
        "AuthenticationError": "auth",
        "BusyLoadingError": "server",
        "ClusterDownError": "server",
        "ConnectionError": "transport",
        "DataError": "invalid_input",
        "NoPermissionError": "auth",
        "ReadOnlyError": "server",
        "ResponseError": "invalid_input",
        "TimeoutError": "timeout",
        "TryAgainError": "server",
    },
    "requests": {
        "ChunkedEncodingError": "transport",
        "ConnectTimeout": "timeout",  # its first base is ConnectionError
        "ConnectionError": "transport",
        "ContentDecodingError": "server",
        "InvalidHeader": "invalid_input",
        "InvalidJSONError": "invalid_input",  # of the request; an answer raises JSONDecodeError
        "InvalidSchema": "invalid_input",
        "InvalidURL": "invalid_input",
        "JSONDecodeError": "server",
        "MissingSchema": "invalid_input",
        "RetryError": "server",
        "Timeout": "timeout",
        "TooManyRedirects": "server",
    },
    "selenium": {"TimeoutException": "timeout"},
    "sqlalchemy": {"TimeoutError": "timeout"},
    "sqlite3": {"DataError": "invalid_input", "IntegrityError": "invalid_input", "ProgrammingError": "invalid_input"},
    "subprocess": {"CalledProcessError": "tool", "TimeoutExpired": "timeout"},
    "switchgear": {"CallTimeoutError": "timeout"},
    "switchgear_schemas": {
        "BrokerUnavailableError": "transport",
        "StoreUnavailableError": "transport",
        "SwitchgearError": "policy",  # a circuit or a budget refused another tool within this one
    },
    "trio": {
        "BrokenResourceError": "transport",
        "Cancelled": "cancelled",
        "ClosedResourceError": "transport",
        "TooSlowError": "timeout",
    },
    "urllib3": {
        "DecodeError": "server",
        "HTTPError": "transport",
        "LocationValueError": "invalid_input",
        "NameResolutionError": "transport",
        "NewConnectionError": "transport",  # in version 1 its base is a timeout
        "ResponseError": "server",
        "TimeoutError": "timeout",
    },
    "websockets": {"ConnectionClosed": "transport", "InvalidHandshake": "transport"},
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
        named = _NAMES.get(_SAME_LIBRARY.get(library, library), {}).get(kind.__name__)
        if named is not None:
            return named
    return None


@lru_cache(maxsize=256)
def _by_builtin(found: type[BaseException]) -> ErrorClass | None:
    return next((named for kinds, named in _BUILTIN if issubclass(found, kinds)), None)
