"""Answer one event of Claude Code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from switchgear_cli.hook import fleet, outbox
from switchgear_cli.hook.calls import Call, Options, call_of, text
from switchgear_cli.hook.state import State

Answer = dict[str, Any]
"""What Claude Code reads from standard output."""


def answer(event: Mapping[str, Any], options: Options, state: State) -> Answer | None:
    """Return the answer to an event, or None for no answer: then Claude Code goes on as without a hook."""
    kind, session = text(event.get("hook_event_name")), text(event.get("session_id"))
    if kind in {"SessionStart", "UserPromptSubmit"}:
        return _notice(kind, session, state)
    if kind == "SessionEnd":
        with state.transaction():
            state.forget_session(session, time.time())
        return None
    call = call_of(event, options)
    if call is None:
        return None
    if kind == "PreToolUse":
        fleet.refresh(state, time.time())
        return _decided(call, options, state)
    if kind == "PostToolUse":
        _succeeded(call, event, state)
    elif kind == "PostToolUseFailure":
        _failed(call, event, state)
    return None


def _notice(kind: str, session: str, state: State) -> Answer | None:
    fleet.refresh(state, time.time())
    if not state.circuits() and not state.fleet():
        return None
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - slow to import

    said = circuits.notice(state, session)
    return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": said}} if said else None


def _decided(call: Call, options: Options, state: State) -> Answer | None:
    if state.quiet(call.circuit_ids, call.session, call.tool, call.call):
        return None
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - slow to import

    refusal = circuits.decide(state, call)
    if refusal is None:
        return None
    said = circuits.shown(refusal, call)
    outbox.refused(state, call, refusal.source)
    found: Answer = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": said,
        }
    }
    if options.terminal_after is not None:
        with state.transaction():
            count = state.count_refusal(call.session, time.time())
            if count >= options.terminal_after:
                state.forget_refusals(call.session)  # the person may go on with the session
                calls = f"{count} tool call{'s' if count > 1 else ''}"
                found |= {
                    "continue": False,
                    "stopReason": f"Switchgear refused {calls} in this session. The last: {said}",
                }
    return found


def _succeeded(call: Call, event: Mapping[str, Any], state: State) -> None:
    response, duration_ms = event.get("tool_response"), _duration(event)
    says_failed = isinstance(response, Mapping) and (response.get("isError") or response.get("is_error"))
    if not says_failed and state.quiet(call.circuit_ids, call.session, call.tool, call.call):
        outbox.ended(state, call, duration_ms)
        return
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - slow to import

    found = circuits.failed_result(response) if says_failed and isinstance(response, Mapping) else None
    error, classification = (None, None) if found is None else found
    circuits.record(state, call, circuits.Ended(error, classification, duration_ms))
    outbox.ended(state, call, duration_ms, error, None if classification is None else classification.error_class)


def _failed(call: Call, event: Mapping[str, Any], state: State) -> None:
    from switchgear_cli.hook import circuits  # noqa: PLC0415 - slow to import

    interrupted, duration_ms = event.get("is_interrupt") is True, _duration(event)
    error, classification = circuits.failure(text(event.get("error")), interrupted=interrupted)
    circuits.record(state, call, circuits.Ended(error, classification, duration_ms))
    outbox.ended(state, call, duration_ms, error, classification.error_class)


def _duration(event: Mapping[str, Any]) -> float | None:
    """Return the call's duration in milliseconds. Older releases of Claude Code don't send it."""
    value = event.get("duration_ms")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
