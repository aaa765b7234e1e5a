"""What operators do: commands to circuits, and undoing them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from switchgear.breaker.states import STATE_OF_MODE, STATE_OF_VERB
from switchgear.follower.view import decode_view
from switchgear.policies.glob import is_glob
from switchgear_api.answers import BadRequestError, ConflictError, json_answer
from switchgear_api.console.audit import Action, Audit
from switchgear_api.console.board import Boards
from switchgear_api.console.figures import utc_now
from switchgear_api.console.fleet import ConsoleCircuits
from switchgear_api.console.records import circuit_part, iso, no_circuit
from switchgear_api.operate.command_result import CommandResult
from switchgear_api.operate.send_command import send_command
from switchgear_api.parameters import json_body
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.command import MAX_REASON_LENGTH, Command
from switchgear_schemas.enums import MAX_NAME_LENGTH, Mode, Verb
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.settings import Settings

log = structlog.get_logger()

WAIT_S: Final = 10.0
"""Longest wait for the worker to show a command, unless the body has another."""
LONGEST_WAIT_S: Final = 300
LONGEST_S: Final = 366 * 86_400
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON_LENGTH, pattern=r"\S")]
Actor = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Wait = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_S)]
Expiry = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_S)]
Given = Literal["force_open", "disable", "metrics_only", "close", "reset", "auto"]
_EXPIRING: Final = frozenset({"force_open", "disable", "metrics_only"})
_VERB_OF: Final = {"forced_open": "force_open", "disabled": "disable", "metrics_only": "metrics_only"}
_UNCOMMANDED: Final = {"override": None, "expires_at": None, "next_probe_at": None}
"""Fields of a circuit after a command has ended."""
_SOON: Final = timedelta(seconds=1)
_SAMPLE: Final = (
    'Send {"command": "force_open", "reason": "the server is being moved", "expires_in_s": 600} as application/json.'
)


class CommandBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a command. ``expires_in_s`` of null means until another command.

    ``actor`` is who gives it, where the API has no tokens. ``wait_s`` is the longest wait for the confirmation; 0 doesn't wait.
    """

    command: Given
    reason: Reason
    expires_in_s: Expiry | None = None
    dry_run: bool = False
    actor: Actor | None = None
    wait_s: Wait = WAIT_S


class ReasonBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an undo."""

    reason: Reason


class Actions(Handlers):
    """The handlers.

    Args:
        settings: The brokers and topics.
        fleet: The circuits.
        boards: Their numbers are read again after an action.
        audit: The record.
        mode_of: Returns the mode of the policy in force for a circuit.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: ConsoleCircuits,
        boards: Boards,
        audit: Audit,
        mode_of: Callable[[str], Awaitable[Mode]],
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._audit = audit
        self._mode_of = mode_of
        self._undoing = asyncio.Lock()
        self.after: list[Callable[[], None]] = [boards.forget]
        """Called after every action: what was read before is old now."""

    @route("POST", "/v1/circuits/{circuit_id:path}/commands", Role.OPERATE, body=CommandBody)
    async def command(self, request: Request) -> Response:
        """Send an operator's command to a circuit."""
        circuit_id: str = request.path_params["circuit_id"]
        rights, (tool, scope, _) = Rights.of(request), read_circuit_id(circuit_id)
        rights.check_all_tenants("Circuits, which all tenants share,")
        rights.check_tool(tool)
        body = await json_body(request, CommandBody, _SAMPLE)
        verb = body.command
        if body.expires_in_s is not None and verb not in _EXPIRING:
            raise BadRequestError(f"{verb} has no end.", hint="Leave out expires_in_s.")
        until = None if body.expires_in_s is None else utc_now() + timedelta(seconds=body.expires_in_s)
        action = Action.of(request, verb, circuit_id, body.reason.strip(), actor=body.actor, expires_at=until)
        command = command_of(
            tool_name=tool,
            verb=verb,
            actor=action.actor,
            reason=action.reason,
            until=until,
            circuit_id=None if scope == "tool" else circuit_id,
        )
        before = await self.present(circuit_id)
        expected = before | await self._change(verb, before)
        if body.dry_run:
            return json_answer({"before": before, "after": expected})
        undo = undo_of_command(verb, before, command)
        action = replace(action, before=before, undo=undo)
        return await self.carry_out(action, [command], expected=expected, wait_s=body.wait_s)

    async def _change(self, verb: Verb, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a circuit that a command changes, as far as they are known before."""
        if verb in _EXPIRING:
            return {"state": STATE_OF_VERB[verb]}
        if verb != "auto":
            return _UNCOMMANDED | {"state": STATE_OF_VERB[verb]}
        if before["override"] is None:
            return {}
        return _UNCOMMANDED | {"state": STATE_OF_MODE[await self._mode_of(before["circuit_id"])]}

    @route("POST", "/v1/audit/{audit_id}/undo", Role.OPERATE, body=ReasonBody)
    async def undo(self, request: Request) -> Response:
        """Undo an action."""
        rights = Rights.of(request)
        rights.check_all_tenants("Circuits, which all tenants share,")
        body = await json_body(request, ReasonBody, 'Send {"reason": "it was a mistake"} as application/json.')
        found = await self._audit.find(request.path_params["audit_id"])
        identity = str(found["audit_id"])
        subject: str = found["subject"]
        if found["action"] == "set_policy" and is_glob(subject):
            rights.check_unrestricted_tools("A policy for a glob")
        rights.check_tool(read_circuit_id(subject).name)
        if not found["undo"] or found["outcome"] in {"refused", "failed"}:
            raise ConflictError(
                f"{found['action']} of {subject!r} can't be undone.", hint="Give another command instead."
            )
        async with self._undoing:  # of two at once, the second one finds the record of the first
            if identity in await self._audit.undone([identity]):
                raise ConflictError("This action was undone already.", hint="GET /v1/audit shows by whom.")
            if (later := await self._audit.later(found)) is not None:
                raise ConflictError(
                    f"{later['actor']} has changed {subject!r} since ({later['action']}: {later['reason']}).",
                    hint="Undo that first, or give the command that you want.",
                )
            action = Action.of(request, "undo", subject, body.reason, undo_of=identity)
            undo = _still(json.loads(found["undo"]))
            commands = [command_of(**each, actor=action.actor, reason=action.reason) for each in undo]
            before = None if found["action"] == "set_policy" else await self.present(subject)
            action = replace(action, before=before)
            await self._audit.write(action)
        return await self._send(action, commands, expected=None, wait_s=WAIT_S)

    async def present(self, circuit_id: str) -> dict[str, Any]:
        """Return the fields of a circuit as it is now."""
        found = await self._fleet.find(circuit_id)
        if found is not None:
            return {**circuit_part(found)}
        return {**no_circuit(read_circuit_id(circuit_id).name, None), "circuit_id": circuit_id}

    async def carry_out(
        self,
        action: Action,
        commands: Sequence[Command],
        *,
        expected: Mapping[str, Any] | None,
        wait_s: float = WAIT_S,
    ) -> Response:
        """Record an action, send its commands one after the other, record the outcome, and answer.

        Args:
            action: What is done.
            commands: The commands.
            expected: State that is shown if the worker has not confirmed the command.
            wait_s: Longest wait for the worker to show each command. 0 doesn't wait.
        """
        await self._audit.write(action)  # first, so that nothing happens without a record
        return await self._send(action, commands, expected=expected, wait_s=wait_s)

    async def _send(
        self, action: Action, commands: Sequence[Command], *, expected: Mapping[str, Any] | None, wait_s: float
    ) -> Response:
        results: list[CommandResult] = []
        async with self._audit.noting_failure(action):
            for command in commands:
                results += await send_command(self._settings, [command], wait_s=wait_s or None)
        last = results[-1]
        after = expected if action.action == "set_policy" else _shown(last.circuit, expected)
        after = None if last.outcome == "refused" else after
        done = action.ended(last.outcome, last.reason, after)
        await self._audit.write(done)
        for each in self.after:
            each()
        log.info(
            "operator action", actor=action.actor, action=action.action, subject=action.subject, outcome=last.outcome
        )
        if last.outcome == "refused":
            raise BadRequestError(f"{last.reason[:1].upper()}{last.reason[1:]}")
        return json_answer(
            {
                "audit_id": str(action.audit_id),
                "command_id": str(last.command.command_id),
                "outcome": last.outcome,
                "detail": last.reason or None,
                "before": action.before,
                "after": after,
                "circuit": None if last.circuit is None else last.circuit.to_dict(),
                "undoable": action.undo is not None,
            }
        )


def undo_of_command(verb: str, before: Mapping[str, Any], command: Command) -> list[dict[str, Any]] | None:
    """Return the commands that restore what held before; None if evidence was removed, which no command brings back."""
    if verb in {"close", "reset"}:
        return None
    target = {"tool_name": command.tool_name, "circuit_id": command.circuit_id}
    override = None  # what a command had set; a state that the policy's mode gives comes back with auto
    if before["override"] is not None:
        override = _VERB_OF.get(before["state"], "force_open")  # force_open until an instant has the state open
    if override is None and verb != "auto" and before["state"] in {"open", "half_open"}:
        # A rule has opened it, and no command brings back the rule. It is open again until its next probe.
        return [target | {"verb": "force_open", "until": before["next_probe_at"] or iso(utc_now())}]
    if override is None:
        return None if verb == "auto" else [target | {"verb": "auto"}]
    until = before["next_probe_at"] if override == "force_open" and before["state"] == "open" else before["expires_at"]
    return [target | {"verb": override, "until": until}]


def _still(commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commands of an undo. What would have ended by now ends at once: open circuits with probes, others as after ``auto``."""
    found, soon = [], utc_now() + _SOON
    for each in commands:
        until = each.get("until")
        if until is None or datetime.fromisoformat(until) > soon:
            found.append(each)
        elif each["verb"] == "force_open":
            found.append(each | {"until": iso(soon)})
        else:
            found.append({name: each.get(name) for name in ("tool_name", "circuit_id")} | {"verb": "auto"})
    return found


def command_of(**fields: Any) -> Command:
    """Return a command.

    Raises:
        BadRequestError: The fields are not those of a command.
    """
    try:
        return Command.from_dict(fields)
    except InvalidExecutionError as error:
        raise BadRequestError(f"{error.message}.", hint=_SAMPLE) from None


def _shown(circuit: Circuit | None, expected: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return expected if circuit is None else circuit_part(decode_view(circuit.to_bytes()))
