"""``POST /v1/hooks/claude-code``: Claude Code's HTTP hooks. A settings file alone makes Claude Code refuse calls while a circuit is open.

Claude Code reads the body of a response with status 200 as it reads the output of a command hook. An empty object means no answer. Any other
status, and no response, are errors that don't block: the call goes on, and the user sees a message. So this never breaks a session.

The outcome of a call comes in a request of its own, without the permit. The gateway remembers the permits that it gave by ``tool_use_id``. If
the outcome comes to another gateway, its event has no generation and no lease, and counts as from a program without a guard.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from switchgear import Rejection, Switchgear
from switchgear.classify.result import outage_of_target, text_rule
from switchgear.integrations.claude_code import ended, shown
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_gateway.asking import PERMIT_S, Client, Gate, check_tool, client_of
from switchgear_gateway.json_requests import address_of, body_of, decoded, json_answer
from switchgear_gateway.names import check_request
from switchgear_gateway.otlp.submission import Submit
from switchgear_gateway.outcomes import Outcome, Outcomes, execution_of
from switchgear_gateway.permit_tokens import GivenPermit
from switchgear_gateway.shared import Shared
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Principal, Role
from switchgear_http.routing import OBJECT, Handlers, Reply, route
from switchgear_http.visibility import Sight
from switchgear_schemas import claude_code
from switchgear_schemas.claude_code import DEFAULT_TOOLS, END_EVENTS, NOTICE_EVENTS, Answer, Event, HookCall, text
from switchgear_schemas.enums import MAX_NAME_LENGTH, TARGET_ERROR
from switchgear_schemas.families import model_name
from switchgear_schemas.globs import any_matches

PATH: Final = "/v1/hooks/claude-code"
MOST_BYTES: Final = 8 * 1_048_576
"""The largest event. The result of a tool is part of it."""
MOST_PERMITS: Final = 10_000
"""Calls whose end is awaited. The oldest are forgotten first."""
KAFKA_S: Final = 5.0
"""The longest wait for Kafka: the session waits for the answer."""
SERVICE: Final = "claude-code"


class HookRoutes(Handlers):
    """The route.

    ``?tools=mcp__*,WebFetch`` in the address guards other tools than those of MCP servers, as ``--tools`` does for the command hook.

    Args:
        gear: A client of the fleet.
        submit: Sends executions to Kafka, of any tenant and tool: the rights are checked here.
        shared: What all routes share.
        wall: Returns seconds since 1970.
        outages_in_text: Globs of the tools whose failed results count by their text.
    """

    def __init__(
        self,
        gear: Switchgear,
        submit: Submit,
        shared: Shared,
        *,
        wall: Callable[[], float] = time.time,
        outages_in_text: Collection[str] = (),
    ) -> None:
        self._shared = shared
        self._gate = Gate(gear, shared.tenant_tools, lifetime_s=PERMIT_S, wall=wall)
        self._outcomes = Outcomes(submit, limit_s=KAFKA_S)
        self._wall = wall
        self._outages_in_text = outages_in_text
        self._permits = BoundedDict[bytes, GivenPermit](MOST_PERMITS)

    @route(
        "POST",
        PATH,
        Role.EMIT,
        body=OBJECT,
        answers={200: Reply("The answer. If it is empty, Claude Code goes on as without a hook.")},
    )
    async def hook(self, request: Request) -> Response:
        """Answer an event of Claude Code."""
        principal, tools = principal_of(request.scope), request.query_params.get("tools") or DEFAULT_TOOLS
        with self._shared.budget.request(principal.credential) as held:
            event: dict[str, Any] = decoded(await body_of(request, held, MOST_BYTES), dict[str, Any])
            found = await self._answer(event, principal, address_of(request), tools)
        return json_answer({} if found is None else found)

    async def _answer(self, event: Event, principal: Principal, address: str, tools: str) -> Answer | None:
        """Return the answer to an event, or None for no answer: then Claude Code goes on as without a hook.

        Raises:
            ProblemError: The client has no right to the tool, its name is refused, or Kafka did not take the event.
        """
        kind = text(event.get("hook_event_name"))
        if kind in NOTICE_EVENTS:
            said = self._message(principal, tools, text(event.get("session_id")), begins=kind == "SessionStart")
            return claude_code.context(kind, said) if said else None
        call = claude_code.call_of(event, tools, self._shared.family_pattern)
        if call is None:
            return None
        check_request(self._shared.names, tool_name=call.tool)
        session = call.session[:MAX_NAME_LENGTH] or None
        client = client_of(principal, address, service=SERVICE, session_id=session)
        if kind == "PreToolUse":
            return await self._decided(client, call)
        if kind in END_EVENTS:
            await self._ended(client, call, event)
        return None

    async def _decided(self, client: Client, call: HookCall) -> Answer | None:
        answer = await self._gate.ask(client, call.tool, target=self._target(call))
        if isinstance(answer, Rejection):
            return claude_code.refusal(shown(answer, call))
        self._permits[_key(client, call)] = answer.permit
        return None

    async def _ended(self, client: Client, call: HookCall, event: Event) -> None:
        check_tool(client.principal, call.tool)
        found, now = ended(event, text_rule(call.tool, self._outages_in_text)), self._wall()
        permit = self._permits.pop(_key(client, call), None)
        if permit is None:
            seconds = (found.duration_ms or 0.0) / 1000
            permit = self._gate.unasked(client, call.tool, seconds, self._target(call))
        classification = found.classification
        outcome = Outcome(status="success", duration_ms=found.duration_ms)
        if classification is not None:
            kind = classification.error_class
            about = outage_of_target(kind, found.error or "") if permit.target else None
            outcome = Outcome(
                status="error",
                duration_ms=found.duration_ms,
                error_type=None if about is None else TARGET_ERROR,
                error_class=about or kind,
                error_message=found.error,
                retry_after_s=classification.retry_after_s,
            )
        await self._outcomes.report(execution_of(permit, outcome, now, client.principal.reporter), resent=False)

    def _target(self, call: HookCall) -> str:
        given = call.arguments if isinstance(call.arguments, Mapping) else {}
        return self._gate.gear.target_of(call.tool, given)

    def _message(self, principal: Principal, tools: str, session: str, *, begins: bool) -> str:
        """Return what to tell the model about the tools that the client may see and the hook guards."""
        gear, named = self._gate.gear, self._gate.tenant_tools.of(principal)
        sight = Sight.of(principal, named, self._shared.family_pattern)
        seen = [view for view in gear.circuits().values() if sight.sees_circuit(view.tool_name, view.scope)]
        names = {f"{view.tool_name}:*" if view.scope == "family" else view.tool_name for view in seen}
        guarded = {each for each in names | named.tools if any_matches(tools, model_name(each))}
        fallbacks = {each for view in seen for each in view.fallback if sight.sees_tool(each)}
        return self._gate.outage_message(principal, session, guarded | fallbacks, name_of=model_name, begins=begins)


def _key(client: Client, call: HookCall) -> bytes:
    """Return what names a call of a client's session. It is a hash, because both ids may have any length."""
    named = f"{client.principal.name}\0{call.session}\0{call.call}"
    return hashlib.blake2b(named.encode(), digest_size=16).digest()
