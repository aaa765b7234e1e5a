"""How a refused or failed MCP call says why: the ``toolFailure`` object in a result's ``_meta``, and the texts of refusals.

The object is that of a draft of MCP, SEP-3313 with the schema of pull request 3312. It has ``class``, ``code``, ``retryable``,
``retryNotBefore`` (milliseconds since 1970), ``correlationId`` and ``agentGuidance``. The draft may still change.

A guard in front of a server reads what a guard inside the server wrote, so a refusal behind it never opens its circuit.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from switchgear.arguments import is_number
from switchgear.classify.classification import IGNORE, Classification
from switchgear_schemas.enums import ErrorClass

META_KEY: Final = "io.modelcontextprotocol/toolFailure"

RefusalSource = Literal["local", "fleet", "session", "duplicate", "caller", "credential", "pace"]
"""What refused a call. It is the ``source`` of a Rejection."""

_BY_SOURCE: Final[dict[RefusalSource, tuple[str, str]]] = {
    "local": ("reliability", "circuit_open"),
    "fleet": ("reliability", "circuit_open"),
    "session": ("governance", "session_exhausted"),
    "duplicate": ("governance", "duplicate_call"),
    "caller": ("capability", "caller_errors"),
    "credential": ("governance", "auth_required"),
    "pace": ("reliability", "paced"),
}
"""The class and the code of a refusal."""
_REFUSALS: Final = frozenset(code for source, (_, code) in _BY_SOURCE.items() if source != "credential")
"""The codes that are Switchgear's own. ``auth_required`` is the draft's, and says the same of a refusal as of the tool's own answer."""

_BY_CODE: Final[dict[tuple[str, str], ErrorClass]] = {
    ("capability", "invalid_input"): "invalid_input",
    ("capability", "resource_not_found"): "invalid_input",
    ("governance", "auth_required"): "auth",
    ("governance", "permission_denied"): "auth",
}
"""Codes that the draft recommends and that say more than their class."""
_BY_CLASS: Final[dict[str, ErrorClass]] = {
    "capability": "tool",  # the server answered: it can't do this
    "reliability": "server",  # a passing fault
    "governance": "policy",  # refused by a rule, or a person has to act first
}


def tool_failure(
    source: RefusalSource, text: str, *, retry_after_s: float | None, correlation_id: str, now: float
) -> dict[str, Any]:
    """Return a refusal as the value of ``_meta["io.modelcontextprotocol/toolFailure"]``.

    Args:
        source: What refused the call: ``rejection.source``.
        text: What the model should do: ``rejection.text``.
        retry_after_s: Seconds until a call may be tried, None if it isn't known: ``rejection.retry_after_s``.
        correlation_id: The id of the call in the server's logs, without secrets. The draft requires it.
        now: The wall clock, in seconds since 1970.

    Returns:
        ``retryable`` is true, with ``retryNotBefore``, only for an open circuit or a rate limit whose wait is known.
    """
    failure_class, code = _BY_SOURCE[source]
    found: dict[str, Any] = {"class": failure_class, "code": code, "retryable": False}
    if failure_class == "reliability" and retry_after_s is not None:
        found |= {"retryable": True, "retryNotBefore": math.ceil((now + retry_after_s) * 1000)}
    return found | {"correlationId": correlation_id, "agentGuidance": text}


def read_tool_failure(meta: object, *, now: Callable[[], float] = time.time) -> Classification | None:
    """Return the class of a failed result by its ``_meta``, None if it has no readable ``toolFailure``.

    | in ``toolFailure`` | class |
    |---|---|
    | a code of Switchgear: ``circuit_open``, ``session_exhausted``, ``duplicate_call``, ``caller_errors``, ``paced`` | ``policy`` |
    | ``capability``: the server can't do it | ``tool``; ``invalid_input`` with the code ``invalid_input`` or ``resource_not_found`` |
    | ``reliability``: a passing fault | ``server``, with the wait until ``retryNotBefore`` if it is ``retryable`` |
    | ``governance``: refused by a rule | ``policy``; ``auth`` with the code ``auth_required`` or ``permission_denied`` |

    Args:
        meta: The ``_meta`` of a result.
        now: Returns the wall clock, in seconds since 1970.
    """
    given = meta.get(META_KEY) if isinstance(meta, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    failure_class, code = given.get("class"), given.get("code")
    if not (isinstance(failure_class, str) and isinstance(code, str)):
        return None
    if code in _REFUSALS:
        return IGNORE
    found = _BY_CODE.get((failure_class, code)) or _BY_CLASS.get(failure_class)
    if found is None:
        return None
    may_ask = found == "server" and given.get("retryable") is True
    return Classification(found, _wait(given.get("retryNotBefore"), now()) if may_ask else None)


def _wait(not_before: object, now: float) -> float | None:
    """Return the seconds until a time in milliseconds since 1970, None if it can't be read."""
    if not is_number(not_before):
        return None
    try:
        seconds = not_before / 1000 - now
    except OverflowError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


_REFUSAL: Final = (
    r"\bThe tool [^\n]{1,100}? is unavailable"
    r"(?:: its server [^\n]{1,100}? (?:does not answer|must not be used)| for [^\n]{1,100}?)? "
    r"\(circuit (?:open|half open|forced open)\)\. "
    r"|\bThe (?:tool|server) [^\n]{1,200}? is recovering(?: for [^\n]{1,100}?)?, and only some calls are let through\. This one was not\b"
    r"|\bThe tool [^\n]{1,100}? was not called: [^\n]{0,420}?\. "
    r"Do not (?:call any tool again in this session; finish|repeat this call; use|call it again now; go on without it|call it within the next)\b"
    r"|\bYour last (?:call|[0-9]{1,9} calls) of [^\n]{1,205}? (?:was|were) rejected[^\n]{0,320}?\. "
    r"Change the arguments or use another tool\."
    r"|\bYour credentials for (?:the server [^\n]{1,100}? of )?the tool [^\n]{1,100}? were rejected "
    r"(?:once|[0-9]{1,9} times in a row), so it was not called\. Sign in again, or use another tool\."
)
"""The texts of Rejection and ThreadsBusyError, in ``guard/``. Frameworks write their own words before and after."""


def is_refusal(text: str) -> bool:
    """Return whether a text has the words of a refusal by Switchgear. Look only at a bounded part of a text."""
    return re.search(_REFUSAL, text) is not None
