"""Answer one event of Claude Code."""

from __future__ import annotations

import time
from collections.abc import Callable

from switchgear_cli.hook import fleet, outbox
from switchgear_cli.hook.calls import Options, call_of
from switchgear_cli.hook.settings import setting
from switchgear_cli.hook.state import State
from switchgear_schemas import claude_code
from switchgear_schemas.claude_code import END_EVENTS, NOTICE_EVENTS, Answer, Event, HookCall, text
from switchgear_schemas.globs import globs_in

Clock = Callable[[], float]


def answer(event: Event, options: Options, state: State, clock: Clock = time.time) -> Answer | None:
    """Return the answer to an event, or None for no answer: then Claude Code goes on as without a hook.

    Args:
        event: As Claude Code sends it.
        options: What the command line says.
        state: The circuits of this machine.
        clock: Returns seconds since 1970.
    """
    kind, session = text(event.get("hook_event_name")), text(event.get("session_id"))
    if kind in NOTICE_EVENTS:
        return _notice(kind, session, state, clock)
    if kind == "SessionEnd":
        with state.transaction():
            state.forget_session(session, clock())
        return None
    call = call_of(event, options)
    if call is None:
        return None
    if kind == "PreToolUse":
        fleet.refresh(state, clock())
        return _decided(call, options, state, clock)
    if kind in END_EVENTS:
        _ended(call, event, state, clock)
    return None


def _notice(kind: str, session: str, state: State, clock: Clock) -> Answer | None:
    fleet.refresh(state, clock())
    if not state.circuits() and not state.fleet() and state.told(session) is None:
        return None
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - slow to import

    said = circuits.message(state, session, begins=kind == "SessionStart", clock=clock)
    return claude_code.context(kind, said) if said else None


def _decided(call: HookCall, options: Options, state: State, clock: Clock) -> Answer | None:
    if state.quiet(call.circuit_ids, call.session, call.tool, call.call):
        return None
    from switchgear.integrations.claude_code import shown  # noqa: PLC0415 - slow to import
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - the same

    target = fleet.target_of(state, call)
    refusal = circuits.decide(state, call, target, clock)
    if refusal is None:
        return None
    said = shown(refusal, call)
    outbox.refused(state, call, refusal.source, target)
    found = claude_code.refusal(said)
    if options.terminal_after is not None:
        with state.transaction():
            count = state.count_refusal(call.session, clock())
            if count >= options.terminal_after:
                state.forget_refusals(call.session)  # the person may go on with the session
                calls = f"{count} tool call{'s' if count > 1 else ''}"
                found |= {
                    "continue": False,
                    "stopReason": f"Switchgear refused {calls} in this session. The last: {said}",
                }
    return found


def _ended(call: HookCall, event: Event, state: State, clock: Clock) -> None:
    if not claude_code.says_failed(event) and state.quiet(call.circuit_ids, call.session, call.tool, call.call):
        outbox.ended(state, call, claude_code.duration_ms(event))
        return
    from switchgear.classify.result import outage_of_target, text_rule  # noqa: PLC0415 - slow to import
    from switchgear.integrations.claude_code import ended  # noqa: PLC0415 - the same
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - the same

    found = ended(event, text_rule(call.tool, globs_in(setting("outages_in_text"))))
    target = fleet.target_of(state, call)
    circuits.record(state, call, found, target, clock)
    error_class = None if found.classification is None else found.classification.error_class
    about = outage_of_target(error_class, found.error or "") if target else None
    outbox.ended(state, call, found.duration_ms, found.error, about or error_class, target, about is not None)
