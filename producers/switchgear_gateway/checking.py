"""Check a client's executions one by one, and complete them: ids, times, the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple

import msgspec

from switchgear.policies.glob import matches
from switchgear.redaction import redact
from switchgear_access.principal import Principal
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.names import CheckName, check_name
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.wire import Execution, decode_execution, decode_valid_executions

_SHORT: Final = 500
_MOST_MESSAGES: Final = 1_000
MOST_WARNINGS: Final = 10
"""In one answer."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Run(NamedTuple):
    """Executions of one tool, in the order of the request."""

    values: list[bytes]
    """Encoded."""
    indices: list[int]
    """Their places in the request."""


class Checked(NamedTuple):
    """The executions of a request."""

    runs: dict[str, Run]
    """Those that can be sent, by tool."""
    rejected: list[tuple[int, str]]
    """Place and reason of each that can't be sent."""
    warnings: list[str]
    """What to tell emitters about executions that can be sent."""

    @property
    def sendable(self) -> int:
        """How many can be sent."""
        return sum(len(run.values) for run in self.runs.values())


def check_executions(
    items: Sequence[bytes],
    principal: Principal,
    clocks: EmitterClocks | None = None,
    *,
    names: CheckName = check_name,
) -> Checked:
    """Return the executions that this client may send, completed.

    An execution is sent on as the client wrote it, with unknown fields. What is missing is added: ``metric_id``, ``recorded_at``,
    ``emitter_id`` (the name of the token) and the token's tenant. Credentials are removed from the error message.

    Args:
        items: JSON objects.
        principal: The client. Its tenant and its tools restrict what it may send.
        clocks: Finds the emitters whose clock is wrong. None: nobody is told.
        names: Checks the names of tools and services.
    """
    runs: dict[str, Run] = {}
    rejected: list[tuple[int, str]] = []
    warnings: list[str] = []
    now = datetime.now(UTC)
    restricted = not principal.unrestricted
    executions = decode_valid_executions(items) or repeat(
        None
    )  # one by one, so that each invalid one is rejected alone
    for index, item, execution in zip(range(len(items)), items, executions, strict=False):
        try:
            if execution is None:
                execution = decode_execution(item)  # noqa: PLW2901
            names("tool_name", execution.tool_name)
            names("service", execution.service or "")
            names("fallback_tool", execution.fallback_tool or "")
            if (
                restricted
                or execution.metric_id is None
                or execution.recorded_at is None
                or not execution.emitter_id
                or (execution.error_message and _redacted(execution.error_message) != execution.error_message)
            ):
                item = _completed(item, execution, principal, now)  # noqa: PLW2901 - a name for each would cost time
        except InvalidExecutionError as error:
            rejected.append((index, str(error)))
            continue
        if clocks is not None and len(warnings) < MOST_WARNINGS:
            warning = clocks.warning(execution, principal, now)
            if warning is not None:
                warnings.append(warning)
        run = runs.get(execution.tool_name)
        if run is None:
            runs[execution.tool_name] = Run([item], [index])
        else:
            run.values.append(item)
            run.indices.append(index)
    return Checked(runs, rejected, warnings)


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
