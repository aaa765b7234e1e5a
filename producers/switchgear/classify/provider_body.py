"""Errors of model providers that come in the middle of a stream: the status was 200, the body says what is wrong."""

from __future__ import annotations

from typing import Final

from switchgear.classify.by_status import class_of_digits
from switchgear.classify.classification import Classification, attribute
from switchgear_schemas.words import ErrorClass

_BY_WORD: Final[dict[str, ErrorClass]] = {
    # codes and types of OpenAI
    "context_length_exceeded": "invalid_input",
    "insufficient_quota": "rate_limited",
    "invalid_request_error": "invalid_input",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "tokens": "rate_limited",
    # types of Anthropic
    "api_error": "server",
    "authentication_error": "auth",
    "billing_error": "auth",
    "not_found_error": "invalid_input",
    "overloaded_error": "server",
    "permission_error": "auth",
    "rate_limit_error": "rate_limited",
    "request_too_large": "invalid_input",
    "timeout_error": "timeout",
}


def by_body(error: BaseException) -> Classification | None:
    """Classify by the ``code`` and ``type`` of an OpenAI or Anthropic error, and of SDKs made alike (they carry a ``body``).

    Gateways and servers made alike write a status into the code: ``"502"``.
    """
    if attribute(error, "body") is None:
        return None
    for name in ("code", "type"):
        word = attribute(error, name)
        found = (_BY_WORD.get(word) or class_of_digits(word)) if isinstance(word, str) else None
        if found is not None:
            return Classification(found)
    return None
