"""From an exception to its class."""

from __future__ import annotations

import logging
from typing import Final

from switchgear.classify.aws import by_aws_code
from switchgear.classify.by_status import by_status
from switchgear.classify.by_type import by_type
from switchgear.classify.classification import Classification
from switchgear.classify.grpc_status import by_grpc_code
from switchgear.classify.mcp_code import by_mcp_code
from switchgear.classify.provider_body import by_body
from switchgear.classify.sqlstate import by_sqlstate
from switchgear.classify.within import members, most_telling, wrapped
from switchgear_schemas.words import ErrorClass

log: Final = logging.getLogger("switchgear.classify")

_CANCELLED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RULES: Final = (by_aws_code, by_grpc_code, by_mcp_code, by_status, by_body, by_sqlstate)
"""First answer decides: what the exception says of itself, before its type."""
_DEEPEST: Final = 5
_SURE: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout", "server", "rate_limited"})


def classify(error: BaseException) -> Classification:
    """Classify by what the exception carries (an HTTP status, a code of AWS, gRPC, MCP or SQL), else by its type.

    * A cancelled call (also by ``KeyboardInterrupt`` or a closed generator) is ``cancelled``: never a failure.
    * 429 is ``rate_limited`` and 5xx ``server``, with ``Retry-After``; 408 and 504 ``timeout``; 401, 402, 403 and 407
      ``auth``; any other 4xx ``invalid_input``.
    * ``TimeoutError`` is ``timeout``; ``ConnectionError``, failed name look-ups, TLS and other ``OSError`` are ``transport``,
      except ``PermissionError`` (``auth``) and missing or existing files (``invalid_input``).
    * ``TypeError`` and ``ValueError`` are ``invalid_input``: the tool works, its argument does not. An answer that is not
      JSON or not text (``JSONDecodeError``, ``UnicodeDecodeError``) is ``server``.
    * A refusal of another guarded tool within this one (``CircuitOpenError``) is ``policy``: that one is broken, not this.
    * An exception group is what its most telling member is: first what counts against a tool.
    * Everything else is ``unknown``, which counts: also ``KeyError`` and ``AttributeError``, an answer of unexpected shape;
      unless it was raised ``from`` an exception that says for sure that the tool is down, limited or slow.

    Never raises, and imports none of the libraries it knows.
    """
    try:
        return _classified(error, 0)
    except Exception:
        log.exception("could not classify %s", type(error).__name__)
        return Classification("unknown")


def _classified(error: BaseException, depth: int) -> Classification:
    if isinstance(error, _CANCELLED):
        return Classification("cancelled")
    if isinstance(error, BaseExceptionGroup):
        return most_telling(_classified(member, depth + 1) for member in members(error))
    told = next((found for rule in _RULES if (found := rule(error)) is not None), None)
    if told is not None:
        return told
    inner = wrapped(error)
    if inner is not None and depth < _DEEPEST:
        return _classified(inner, depth + 1)
    return _by_type_or_cause(error, depth)


def _by_type_or_cause(error: BaseException, depth: int) -> Classification:
    found = by_type(error)
    if found is not None:
        return Classification(found)
    if error.__cause__ is not None and depth < _DEEPEST:
        cause = _classified(error.__cause__, depth + 1)
        if cause.error_class in _SURE:
            return cause
    return Classification("unknown")
