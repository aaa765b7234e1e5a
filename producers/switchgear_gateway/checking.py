"""Check a client's executions one by one, and complete them: ids, times, the tenant."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from switchgear.policies.glob import matches
from switchgear.redaction import redact
from switchgear_access.principal import Principal
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.wire import Execution, decode_execution

_SHORT: Final = 500
_MOST_MESSAGES: Final = 1_000
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclasses.dataclass(slots=True)
class Checked:
    """The executions of a request.

    Attributes:
        records: Tool and encoded execution of each that can be sent.
        indices: Their places in the request.
        rejected: Place and reason of each that can't be sent.
    """

    records: list[tuple[str, bytes]] = dataclasses.field(default_factory=list)
    indices: list[int] = dataclasses.field(default_factory=list)
    rejected: list[tuple[int, str]] = dataclasses.field(default_factory=list)


def check_executions(items: Iterable[bytes], principal: Principal) -> Checked:
    """Return the executions that this client may send, completed.

    An execution is sent on as the client wrote it, with unknown fields. What is missing is added: ``metric_id``, ``recorded_at``,
    ``emitter_id`` (the name of the token) and the token's tenant. Credentials are removed from the error message.

    Args:
        items: JSON objects.
        principal: The client. Its tenant and its tools restrict what it may send.
    """
    found = Checked()
    now = datetime.now(UTC)
    for index, item in enumerate(items):
        try:
            execution = decode_execution(item)
            found.records.append((execution.tool_name, _completed(item, execution, principal, now)))
            found.indices.append(index)
        except InvalidExecutionError as error:
            found.rejected.append((index, str(error)))
    return found


def _completed(item: bytes, execution: Execution, principal: Principal, now: datetime) -> bytes:
    tenant, tools = principal.tenant, principal.tools
    if tenant is not None and execution.tenant and execution.tenant != tenant:
        raise InvalidExecutionError("tenant", f"the token may send for the tenant {tenant!r} only")
    if tools and not any(matches(pattern, execution.tool_name) for pattern in tools):
        raise InvalidExecutionError("tool_name", "the token may not send for this tool")
    added: dict[str, Any] = {}
    if execution.metric_id is None:
        added["metric_id"] = mint_metric_id()
    if execution.recorded_at is None:
        added["recorded_at"] = now
    if not execution.emitter_id:
        added["emitter_id"] = principal.name
    if tenant is not None and not execution.tenant:
        added["tenant"] = tenant
    if execution.error_message is not None:
        message = _redacted(execution.error_message)
        if message != execution.error_message:
            added["error_message"] = message
    return _with(item, added) if added else item


def _redacted(message: str) -> str:
    """Return a message without credentials. In an outage the same short message comes again and again."""
    return _redacted_before(message) if len(message) <= _SHORT else redact(message)


_redacted_before: Final = lru_cache(_MOST_MESSAGES)(redact)


def _with(item: bytes, added: dict[str, Any]) -> bytes:
    try:
        return _encode(_decode(item) | added)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidExecutionError("", f"the message is not JSON: {error}") from None
