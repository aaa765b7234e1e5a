"""An operator's commands: asked for by a model, agreed to by a person, carried out by the API with the caller's own token."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, ValidationError

from switchgear.model_text import data_for_model, name_for_model
from switchgear_mcp.ask.api import Api, segment
from switchgear_mcp.ask.callers import Caller
from switchgear_mcp.ask.confirmations import LASTS_S, Confirmations
from switchgear_mcp.ask.errors import AskError
from switchgear_mcp.ask.questions import Name, Nothing
from switchgear_mcp.ask.words import Answer
from switchgear_schemas.circuit_ids import circuit_id

WAIT_S: Final = 10.0
"""How long the API waits for the worker."""
_ANSWER_LIMIT_S: Final = 300.0
"""How long a person may take to answer."""
_KEY: Final = "confirm"
_ENDING: Final = frozenset({"force_open", "disable", "metrics_only"})
_WHAT: Final = {
    "force_open": "Refuse all calls of {0}, in every process",
    "close": "Let the calls of {0} through again",
    "reset": "Close the circuit of {0} and forget what it has counted",
    "disable": "Let every call of {0} through, and count none",
    "metrics_only": "Let every call of {0} through, and go on counting",
    "auto": "Remove the operator's command for {0}, so that the policy decides again",
}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_KEY: {"type": "boolean", "title": "Do it", "description": "It takes effect in every process."}},
    "required": [_KEY],
}
_UNDONE: Final = "Nothing was done"


class Command(Nothing):
    """A command."""

    tool: Annotated[Name, Field(description="Name of the tool or, with server, of the server, e.g. mcp:weather.")]
    command: Annotated[
        Literal["force_open", "close", "reset", "disable", "metrics_only", "auto"],
        Field(
            description="force_open: refuse all calls. close: let them through again. reset: also forget the evidence. "
            "disable: let all through, count none. metrics_only: let all through, count. auto: the policy decides again."
        ),
    ]
    reason: Annotated[str, Field(min_length=1, max_length=300, pattern=r"\S", description="Why, for the record.")]
    minutes: Annotated[
        float | None,
        Field(gt=0, le=10_080, description="How long force_open, disable or metrics_only holds. Default: until auto."),
    ] = None
    server: Annotated[bool, Field(description="tool names a server: its own circuit, so all its tools.")] = False
    confirm: Annotated[
        str | None,
        Field(max_length=100, description="What the first answer gave you. Send it only after your user has agreed."),
    ] = None

    @property
    def circuit_id(self) -> str:
        """The circuit that is commanded."""
        return circuit_id(self.tool, "family") if self.server else circuit_id(self.tool)

    def body(self) -> dict[str, Any]:
        """Return the body of the request."""
        until = {} if self.minutes is None else {"expires_in_s": self.minutes * 60}
        return {"command": self.command, "reason": self.reason.strip(), **until}


class Commands:
    """Carries out commands that are agreed to.

    Args:
        api: The API.
        confirmations: The permissions.
    """

    name: Final = "operate"
    title: Final = "Command a circuit"
    description: Final = (
        "Stop or allow the calls of a tool in the whole fleet. Your user is asked first: the first answer says what would change, "
        "and nothing is done before they agree."
    )
    arguments: Final = Command

    def __init__(self, api: Api, confirmations: Confirmations | None = None) -> None:
        self._api = api
        self._confirmations = confirmations or Confirmations()

    async def run(
        self, ctx: ServerRequestContext[Any, Any], caller: Caller, given: Command, params: types.CallToolRequestParams
    ) -> Answer | types.InputRequiredResult:
        """Ask for agreement, or carry out the command if it is there.

        Raises:
            AskError: The caller has no such role, the command can't be one, or there is no agreement.
        """
        if not caller.may_operate:
            raise AskError(f"{_UNDONE}: a command needs a token of all tenants with the role operate.", status=403)
        if given.minutes is not None and given.command not in _ENDING:
            raise AskError(f"{_UNDONE}: {given.command} has no end. Leave out minutes.", status=400)
        before = await self._before(caller, given)
        asked = {"circuit": given.circuit_id, "body": given.body(), "before": before}
        if _can_ask(ctx):
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern and params.request_state is None:
                state = self._confirmations.issue("user", caller.key, asked)
                return types.InputRequiredResult(
                    input_requests={_KEY: types.ElicitRequest(params=_form(given, before))}, request_state=state
                )
            if modern:
                answer = _given_answer(params)
                fits = self._confirmations.redeem(params.request_state or "", "user", caller.key, asked)
            else:
                answer = await _elicited(ctx, given, before)
                fits = before == await self._before(caller, given)
            if not fits:
                raise AskError(f"{_UNDONE}: {_TOO_LATE}")
            if answer is None or answer.action != "accept" or (answer.content or {}).get(_KEY) is not True:
                raise AskError(f"{_UNDONE}: your user did not agree. Do not ask again unless they tell you to.")
        elif given.confirm is None:
            return _first_answer(given, before, self._confirmations.issue("model", caller.key, asked))
        elif not self._confirmations.redeem(given.confirm, "model", caller.key, asked):
            raise AskError(f"{_UNDONE}: {_TOO_LATE}")
        return await self._done(caller, given)

    async def _before(self, caller: Caller, given: Command) -> str:
        """Return the state of the circuit, after the API has checked the command without doing it."""
        content = await self._api.post(_path(given), caller.token, given.body() | {"dry_run": True})
        before = content.get("before")
        return str(before.get("state")) if isinstance(before, Mapping) else "closed"

    async def _done(self, caller: Caller, given: Command) -> Answer:
        body = given.body() | {"wait_s": WAIT_S}
        content = await self._api.post(_path(given), caller.token, body, more_s=WAIT_S)
        outcome, after = name_for_model(str(content.get("outcome"))), content.get("after")
        state = name_for_model(str(after.get("state"))) if isinstance(after, Mapping) else "unknown"
        what = _WHAT[given.command].format(name_for_model(given.tool))
        text = f"Done ({outcome}): {what[0].lower()}{what[1:]}. The circuit is {state.replace('_', ' ')} now."
        if outcome not in {"applied", "unchanged"}:
            text = f"Sent ({outcome}), and no worker has confirmed it yet. Ask tool_status in a moment."
        audit = name_for_model(str(content.get("audit_id")))
        return Answer(text, {"outcome": outcome, "state": state, "audit_id": audit})


_TOO_LATE: Final = "the agreement is not of this command, was used already, is too old, or the circuit has changed since. Ask again without it."


def _path(given: Command) -> str:
    return f"/v1/circuits/{segment(given.circuit_id)}/commands"


def _question(given: Command, before: str) -> str:
    what = _WHAT[given.command].format(name_for_model(given.tool) if not given.server else _all_tools(given.tool))
    lasts = "" if given.minutes is None else f" for {given.minutes:g} minutes"
    return f"{what}{lasts}? The circuit is {before.replace('_', ' ')} now. The agent's reason: {data_for_model(given.reason)}."


def _all_tools(server: str) -> str:
    return f"all tools of {name_for_model(server)}"


def _form(given: Command, before: str) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=_question(given, before), requested_schema=_SCHEMA)


def _first_answer(given: Command, before: str, token: str) -> Answer:
    question = _question(given, before)
    text = (
        f"{_UNDONE} yet. Ask your user: {question} If they agree, call operate again within {LASTS_S / 60:g} minutes with the "
        f"same arguments and confirm={token}. If they don't, do nothing."
    )
    return Answer(text, {"done": False, "question": question, "confirm": token, "expires_in_s": LASTS_S})


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client asks its user questions of a server."""
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None:
        return False
    by_form = elicitation.form is not None or elicitation.url is None  # a client of 2025-06-18 names no kind
    return by_form and (ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request)


def _given_answer(params: types.CallToolRequestParams) -> types.ElicitResult | None:
    found = (params.input_responses or {}).get(_KEY)
    return found if isinstance(found, types.ElicitResult) else None


async def _elicited(ctx: ServerRequestContext[Any, Any], given: Command, before: str) -> types.ElicitResult:
    """Ask the user over the connection, and wait.

    Raises:
        AskError: The client refuses to ask, or nobody answers in time.
    """
    try:
        async with asyncio.timeout(_ANSWER_LIMIT_S):
            return await ctx.session.elicit_form(_question(given, before), _SCHEMA, ctx.request_id)
    except TimeoutError:
        raise AskError(f"{_UNDONE}: your user did not answer in time.") from None
    except (MCPError, ValidationError):
        raise AskError(f"{_UNDONE}: your client could not ask your user.") from None
