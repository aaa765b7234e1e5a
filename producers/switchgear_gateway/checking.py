"""Check a client's executions one by one, and complete them: ids, times, the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count, repeat
from typing import Any, Final, NamedTuple

import msgspec

from switchgear.policies.glob import matches
from switchgear.redaction import redact
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.names import CheckName, check_name
from switchgear_http.json_cost import is_dear
from switchgear_http.principal import Principal
from switchgear_http.turns import Turn
from switchgear_schemas.enums import MAX_EVENT_BYTES
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.wire import Execution, decode_execution, decode_valid_executions

_STEP_BYTES: Final = 16_384
"""So much of a request is checked before others go on."""
_FEW_BYTES: Final = 65_536
"""So many bytes can't have too many values."""
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


async def check_in_turn(
    items: Sequence[bytes],
    principal: Principal,
    turn: Turn,
    clocks: EmitterClocks | None = None,
    *,
    names: CheckName = check_name,
) -> Checked:
    """Return what :func:`check_executions` returns, and let others go on meanwhile."""
    found = Checked({}, [], [])
    first = size = 0
    for end, item in enumerate(items, 1):
        size += len(item)
        if size >= _STEP_BYTES or end == len(items):
            check_executions(items[first:end], principal, clocks, names=names, into=found, first=first)
            await turn.pause()
            first, size = end, 0
    return found


def check_executions(
    items: Sequence[bytes],
    principal: Principal,
    clocks: EmitterClocks | None = None,
    *,
    names: CheckName = check_name,
    into: Checked | None = None,
    first: int = 0,
) -> Checked:
    """Return the executions that this client may send, completed.

    An execution is sent on as the client wrote it, with unknown fields. What is missing is added: ``metric_id``, ``recorded_at``,
    ``emitter_id`` (the name of the token) and the token's tenant. The ``reporter`` is the client's credential, whatever the client wrote:
    one token is one reporter, unless it is a collector's. Credentials are removed from the error message.

    Args:
        items: JSON objects.
        principal: The client. Its tenant and its tools restrict what it may send.
        clocks: Finds the emitters whose clock is wrong. None: nobody is told.
        names: Checks the names of tools and services.
        into: Earlier executions of the same request, to which these are added.
        first: Place of the first one in the request.
    """
    checked = into or Checked({}, [], [])
    runs, rejected, warnings = checked
    now = datetime.now(UTC)
    restricted = not principal.unrestricted
    reporter = principal.reporter
    dense = any(len(item) > _FEW_BYTES and is_dear(item) for item in items)
    together = None if dense else decode_valid_executions(items)
    executions = together or repeat(None)  # one by one, so that each invalid one is rejected alone
    for index, item, execution in zip(count(first), items, executions, strict=False):
        try:
            if execution is None:
                execution = _decoded(item)  # noqa: PLW2901
            names("tool_name", execution.tool_name)
            names("service", execution.service or "")
            names("fallback_tool", execution.fallback_tool or "")
            message = _redacted(execution.error_message) if execution.error_message else execution.error_message
            if (
                restricted
                or execution.metric_id is None
                or execution.recorded_at is None
                or not execution.emitter_id
                or message != execution.error_message
            ):
                item = _completed(item, execution, principal, now, message)  # noqa: PLW2901 - a name for each would cost time
            if reporter is not None and execution.reporter != reporter:
                item = _attributed(item, execution, reporter)  # noqa: PLW2901
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
    return checked


def _decoded(item: bytes) -> Execution:
    if len(item) > _FEW_BYTES and is_dear(item):
        raise InvalidExecutionError("metadata", "it has too many values for one event")
    return decode_execution(item)


def _completed(item: bytes, execution: Execution, principal: Principal, now: datetime, message: str | None) -> bytes:
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
    if message != execution.error_message:
        added["error_message"] = message
    return _with(item, added) if added else item


def _attributed(item: bytes, execution: Execution, reporter: str) -> bytes:
    """Return an execution with its reporter, without decoding it unless the client wrote one."""
    if execution.reporter or b'"reporter"' in item:
        found = _with(item, {"reporter": reporter})
    else:
        found = b'%s,"reporter":%s}' % (item.rstrip()[:-1], _encode(reporter))
    if len(found) > MAX_EVENT_BYTES:
        raise InvalidExecutionError("", f"the message has {len(found)} bytes, more than the {MAX_EVENT_BYTES} allowed")
    return found


def _redacted(message: str) -> str:
    """Return a message without credentials. In an outage the same short message comes again and again."""
    return _redacted_before(message) if len(message) <= _SHORT else redact(message)


_redacted_before: Final = lru_cache(_MOST_MESSAGES)(redact)


def _with(item: bytes, added: dict[str, Any]) -> bytes:
    try:
        return _encode(_decode(item) | added)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidExecutionError("", f"the message is not JSON: {error}") from None
