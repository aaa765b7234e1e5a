"""Outcomes of permitted calls: one event each, sent until Kafka has it, and counted once."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from switchgear.redaction import considered, redact
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_gateway.otlp.submission import Submit
from switchgear_gateway.permit_tokens import MAX_LENGTH, GivenPermit
from switchgear_http.problem import ProblemError
from switchgear_schemas import ToolExecution
from switchgear_schemas.enums import MAX_NAME_LENGTH, MOST_MS, MOST_TOKENS, MOST_USD, ErrorClass, Status, status_of

LIMIT_S: Final = 10.0
"""The longest wait for Kafka."""
MOST_REMEMBERED: Final = 100_000
"""Outcomes that a gateway recognises when they come again, about 15 MB."""
_MOST: Final = 1e12
_DEEPEST: Final = 100
"""Levels of ``metadata``. An event with more than 250 can't be encoded."""
_AGAIN: Final = "Send it again with the header Switchgear-Resent: true. It counts once."

Name = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Amount = Annotated[float, Meta(ge=0, le=_MOST)]


class Outcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a permitted call ended.

    Attributes:
        status: ``ignored`` for a call that says nothing about the tool's health.
        error_class: What kind of failure it was. Without one, an error counts against the tool.
        error_type: The type of the error, such as an exception's class name.
        error_message: Its message. Secrets are removed.
        retry_after_s: Seconds that a rate-limited tool asked its caller to wait.
        duration_ms: The call's duration in milliseconds, at most a year. By default it is the time since the permit was given.
        input_tokens: Model tokens that the call read.
        output_tokens: Model tokens that it wrote.
        cost_usd: Its cost in US dollars.
        metadata: Anything else.
    """

    status: Literal["success", "error", "timeout", "ignored"]
    error_class: ErrorClass | None = None
    error_type: Name | None = None
    error_message: str | None = None
    retry_after_s: Amount | None = None
    duration_ms: Annotated[float, Meta(ge=0, le=MOST_MS)] | None = None
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cost_usd: Annotated[float, Meta(ge=0, le=MOST_USD)] = 0.0
    metadata: dict[str, Any] | None = None


class OutcomeRequest(Outcome, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a permit.

    Attributes:
        permit: As ``/v1/decide`` returned it.
    """

    permit: Annotated[str, Meta(max_length=MAX_LENGTH)]


def execution_of(permit: GivenPermit, outcome: Outcome, now: float, reporter: str | None = None) -> ToolExecution:
    """Return the event of an outcome that arrived at ``now`` (seconds since 1970).

    The ``reporter`` is that of the client that sends it (:attr:`~switchgear_http.principal.Principal.reporter`).

    With a known duration the event says when the call ended, and not when the outcome arrived. So an outcome that a client holds back for
    minutes doesn't look recent, and a repeated one has the same time as the first.

    Raises:
        ProblemError: The outcome contradicts itself, or its metadata is nested too deep.
    """
    if _is_deeper(outcome.metadata, _DEEPEST):
        raise ProblemError(422, f"metadata: it has more than {_DEEPEST} levels.", "Nest it less deep.")
    status, error_class = _kind(outcome)
    since = max(0.0, now - permit.issued_at)
    took = since if outcome.duration_ms is None else min(since, outcome.duration_ms / 1000)
    message = outcome.error_message
    return ToolExecution(
        metric_id=UUID(bytes=permit.metric_id),
        tenant=permit.tenant,
        tool_name=permit.tool,
        target=permit.target,
        user_id=permit.user_id,
        session_id=permit.session_id,
        request_id=permit.request_id,
        status=status,
        execution_time_ms=since * 1000 if outcome.duration_ms is None else outcome.duration_ms,
        error_type=outcome.error_type,
        error_message=None if message is None else redact(considered(message)),
        error_class=error_class,
        retry_after_s=outcome.retry_after_s,
        parameters_hash=permit.parameters_hash,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
        cost_usd=outcome.cost_usd,
        served_by=permit.served_by,
        emitter_id=permit.emitter_id,
        reporter=reporter or "",
        service=permit.service,
        generation=permit.generation,
        lease_id=permit.lease_id,
        family_generation=permit.family_generation,
        family_lease_id=permit.family_lease_id,
        metadata=outcome.metadata or {},
        recorded_at=datetime.fromtimestamp(permit.issued_at + took, UTC),
    )


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels == 0 or _is_deeper(each, levels - 1) for each in inner)


def _kind(outcome: Outcome) -> tuple[Status, ErrorClass | None]:
    if outcome.status in {"success", "ignored"} and outcome.error_class is not None:
        raise ProblemError(
            422, f"error_class: an outcome of status {outcome.status} has none.", "Leave it out, or send status error."
        )
    described = outcome.error_type is not None or outcome.error_message is not None
    if outcome.status == "success":
        if described:
            raise ProblemError(
                422, "error_type, error_message: a success has no error.", "Leave them out, or send status error."
            )
        return "success", None
    if outcome.status == "ignored":
        return ("error" if described else "success"), "policy"
    if outcome.status == "timeout":
        return "timeout", outcome.error_class or "timeout"
    return ("error", None) if outcome.error_class is None else (status_of(outcome.error_class), outcome.error_class)


class Outcomes:
    """Sends the events of outcomes. One that comes again counts once.

    A gateway recognises the last outcomes that it has sent. For one that another gateway may have sent, its client says ``resent``: the
    event gets the header ``switchgear.resent``, and readers look for the first copy by ``metric_id``.

    Args:
        submit: Sends executions to Kafka.
        limit_s: The longest wait for Kafka, in seconds.
    """

    def __init__(self, submit: Submit, *, limit_s: float = LIMIT_S) -> None:
        self._submit = submit
        self._limit_s = limit_s
        self._sent = BoundedDict[bytes, bool](MOST_REMEMBERED)
        """By ``metric_id``, whether Kafka has acknowledged it. False: it may be there."""

    def __len__(self) -> int:
        return len(self._sent)

    async def report(self, execution: ToolExecution, *, resent: bool) -> None:
        """Send an event, and return when Kafka has it.

        Raises:
            ProblemError: It was not taken (422, 429), or it isn't known whether it was (503).
        """
        key = execution.metric_id.bytes
        known = self._sent.get(key)
        if known:
            return
        self._sent[key] = False
        try:
            async with asyncio.timeout(self._limit_s):
                result = await self._submit([execution], resent=resent or known is not None)
        except TimeoutError:
            raise _unknown(f"Kafka did not acknowledge the event within {self._limit_s:g} s.") from None
        if result.unknown:
            raise _unknown("It is not known whether Kafka has the event.")
        if result.retry_after_s is not None or result.rejected:
            if known is None:
                self._sent.pop(key, None)
            if result.rejected:
                raise ProblemError(422, f"The event was not accepted: {result.rejected[0][1]}.")
            wait = str(max(1, math.ceil(result.retry_after_s or 0)))
            raise ProblemError(429, "The gateway is busy.", f"Try again in {wait} s.", {"Retry-After": wait})
        self._sent[key] = True


def _unknown(detail: str) -> ProblemError:
    return ProblemError(503, detail, _AGAIN, {"Retry-After": "1"})
