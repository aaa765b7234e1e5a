"""``POST /v1/decide`` and ``POST /v1/outcome``: the guard as two requests, for clients that hold no state.

The gateway holds none either: see :mod:`switchgear_gateway.permit_tokens`. An outcome that is never delivered leaves nothing behind. If its
permit was a probe, the worker ends the lease, and the next request gets a probe.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from switchgear import Rejection, Switchgear
from switchgear.classify.tool_failure import tool_failure
from switchgear_gateway.asking import PERMIT_S, Client, Gate, client_of
from switchgear_gateway.json_requests import address_of, body_of, decoded, json_answer, resent
from switchgear_gateway.names import check_request
from switchgear_gateway.otlp.submission import Submit
from switchgear_gateway.outcomes import Name, OutcomeRequest, Outcomes, execution_of
from switchgear_gateway.permit_tokens import GivenPermit, PermitTokens
from switchgear_gateway.shared import Shared
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Handlers, Reply, route
from switchgear_schemas.enums import MAX_NAME_LENGTH, CircuitState
from switchgear_schemas.ids import mint_metric_id

MOST_BYTES: Final = 65_536
"""The largest body."""
RESENT: Final = "switchgear-resent"
_MOST_FALLBACKS: Final = 20
_MOST_TOOLS: Final = 500

ToolName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]


class DecideRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A question whether a call may be made.

    Attributes:
        tool: The tool.
        user_id: The user that the call is for.
        session_id: The session.
        request_id: The request.
        target: What the call is about, such as the host of its URL. It counts if the tool's policy has a ``target``.
        fallbacks: Tools that you can call instead. Those that the tool's policy names as its fallbacks are asked, in its order.
        arguments_hash: A keyed hash of the arguments, for the event.
        tenant: The tenant whose call it is. A token with a tenant has that one.
        emitter_id: The process that calls, for the event. By default the token's name and the address stand for it.
        service: The service that it belongs to, for the event. By default the token's name.
        tools: The tools of the agent. With a ``session_id``, the answer's ``message`` is about them.
    """

    tool: ToolName
    user_id: Name = ""
    session_id: Name | None = None
    request_id: Name | None = None
    target: Name = ""
    fallbacks: Annotated[list[ToolName], Meta(max_length=_MOST_FALLBACKS)] = []
    arguments_hash: Name | None = None
    tenant: Name | None = None
    emitter_id: Name | None = None
    service: Name | None = None
    tools: Annotated[list[ToolName], Meta(max_length=_MOST_TOOLS)] = []


class Permitted(msgspec.Struct, kw_only=True):
    """The call may be made: call ``tool``, and send its outcome.

    Attributes:
        allowed: True.
        permit: Send it with the outcome.
        tool: The tool to call. It is a fallback if the circuit of the tool that was asked for refuses.
        probe: The call tests whether the tool has recovered.
        generation: Generation of the tool's circuit. Null if it isn't known.
        expires_in_s: Seconds within which the outcome has an effect.
        message: What to append to the session's conversation: which of ``tools`` went down, and which may be called again.
            Left out if there is nothing to say.
    """

    allowed: Literal[True] = True
    permit: str
    tool: str
    probe: bool
    generation: int | None
    expires_in_s: float
    message: str | UnsetType = UNSET


class Refused(msgspec.Struct, kw_only=True):
    """The call must not be made.

    Attributes:
        allowed: False.
        text: What to show to the model.
        state: The circuit's state.
        source: What refused.
        reason: The rule that opened the circuit.
        retry_after_s: Seconds until a call may be tried. Null if it isn't known.
        fallback: A tool to use instead.
        last_error: The last failure that counted: a stranger's text, for your code. Null for a token with a tenant.
        last_error_class: Its class.
        family: The tool's server, if its circuit refused.
        generation: Generation of the circuit.
        toolFailure: The refusal as an MCP server would return it, under ``io.modelcontextprotocol/toolFailure``.
        message: See :class:`Permitted`.
    """

    allowed: Literal[False] = False
    text: str
    state: CircuitState
    source: str
    reason: str
    retry_after_s: float | None
    fallback: str | None
    last_error: str | None
    last_error_class: str | None
    family: str | None
    generation: int | None
    toolFailure: dict[str, Any]  # noqa: N815 - the name in MCP
    message: str | UnsetType = UNSET


_FIELDS: Final = get_type_hints(Permitted, include_extras=True) | get_type_hints(Refused, include_extras=True)
Decision: Final = msgspec.defstruct(
    "Decision",
    [("allowed", bool), *((name, kind | UnsetType, UNSET) for name, kind in _FIELDS.items() if name != "allowed")],
    namespace={
        "__doc__": f"If allowed is true: {cleandoc(Permitted.__doc__ or '')}\n\nIf it is false: {cleandoc(Refused.__doc__ or '')}"
    },
)
"""Both answers as one object, for the OpenAPI document: of two alternatives, generated clients lose the fields."""


class DecideRoutes(Handlers):
    """The two routes.

    Args:
        gear: A client of the fleet.
        submit: Sends executions to Kafka, of any tenant and tool: the rights are checked here.
        shared: What all routes share.
        key: Signs permits, at least 16 bytes. Give all gateways the same. None: one of this process alone.
        lifetime_s: How long a permit lasts.
        wall: Returns seconds since 1970.
    """

    def __init__(
        self,
        gear: Switchgear,
        submit: Submit,
        shared: Shared,
        *,
        key: bytes | None = None,
        lifetime_s: float = PERMIT_S,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._shared = shared
        self._gate = Gate(gear, shared.tenant_tools, lifetime_s=lifetime_s, wall=wall)
        self._tokens = PermitTokens(key)
        self._outcomes = Outcomes(submit)
        self._wall = wall

    @route(
        "POST",
        "/v1/decide",
        Role.EMIT,
        body=DecideRequest,
        answers={200: Reply("Whether it is allowed.", (Decision,))},
    )
    async def decide(self, request: Request) -> Response:
        """Ask whether a call may be made."""
        with self._shared.budget.request(principal_of(request.scope).credential) as held:
            asked = decoded(await body_of(request, held, MOST_BYTES), DecideRequest)
        fallbacks = {f"fallbacks[{index}]": each for index, each in enumerate(asked.fallbacks)}
        check_request(self._shared.names, tool=asked.tool, service=asked.service, **fallbacks)
        client = client_of(
            principal_of(request.scope),
            address_of(request),
            tenant=asked.tenant,
            emitter_id=asked.emitter_id,
            service=asked.service,
            user_id=asked.user_id,
            session_id=asked.session_id,
            request_id=asked.request_id,
        )
        answer = await self._gate.ask(
            client,
            asked.tool,
            target=asked.target,
            fallbacks=asked.fallbacks,
            parameters_hash=asked.arguments_hash,
        )
        found: Permitted | Refused
        if isinstance(answer, Rejection):
            found = refused(answer, asked.request_id or mint_metric_id(), self._wall())
        else:
            found = self._permitted(answer.permit, answer.expires_in_s)
        found.message = self._message(client, asked.tools)
        return json_answer(found)

    @route(
        "POST",
        "/v1/outcome",
        Role.EMIT,
        (resent("an earlier request may have sent it."),),
        body=OutcomeRequest,
        answers={204: Reply("Kafka has it.", None), 404: Reply("The permit is unknown or has expired.", None)},
    )
    async def outcome(self, request: Request) -> Response:
        """Say how a permitted call ended."""
        with self._shared.budget.request(principal_of(request.scope).credential) as held:
            outcome = decoded(await body_of(request, held, MOST_BYTES), OutcomeRequest)
        now, principal = self._wall(), principal_of(request.scope)
        permit = self._tokens.permit(outcome.permit)
        if permit is None or not principal.may(Role.EMIT, tool=permit.tool, tenant=permit.tenant):
            raise ProblemError(
                404,
                "permit: it is unknown.",
                "Send it as /v1/decide returned it, with the token that asked. Several gateways need the same gateway_permit_key.",
            )
        if now >= permit.expires_at:
            raise ProblemError(
                404, "permit: it has expired.", "Send the call to /v1/executions, if it should be stored."
            )
        again = request.headers.get(RESENT, "").strip().lower() == "true"
        await self._outcomes.report(execution_of(permit, outcome, now, principal.reporter), resent=again)
        return Response(status_code=204)

    def _message(self, client: Client, tools: list[str]) -> str | UnsetType:
        """Return what to append to the session's conversation, if there is anything to say."""
        seen = [tool for tool in tools if client.principal.may(Role.EMIT, tool=tool, tenant=client.tenant)]
        if not seen or not client.session_id:
            return UNSET
        return self._gate.outage_message(client.principal, client.session_id, seen) or UNSET

    def _permitted(self, permit: GivenPermit, expires_in_s: float) -> Permitted:
        return Permitted(
            permit=self._tokens.token(permit),
            tool=permit.tool,
            probe=permit.lease_id is not None or permit.family_lease_id is not None,
            generation=permit.generation,
            expires_in_s=round(expires_in_s, 3),
        )


def refused(refusal: Rejection, correlation_id: str, now: float) -> Refused:
    """Return a refusal as an answer.

    Args:
        refusal: With what the client may see.
        correlation_id: The id of the call.
        now: In seconds since 1970.
    """
    text, wait = refusal.text, refusal.retry_after_s
    return Refused(
        text=text,
        state=refusal.state,
        source=refusal.source,
        reason=refusal.reason,
        retry_after_s=None if wait is None else round(wait, 3),
        fallback=refusal.fallback,
        last_error=refusal.last_error,
        last_error_class=refusal.last_error_class,
        family=refusal.family,
        generation=refusal.generation,
        toolFailure=tool_failure(refusal.source, text, retry_after_s=wait, correlation_id=correlation_id, now=now),
    )
