"""What the hooks of Claude Code say about a call, by the SDK's rules: how it ended, and the text of a refusal.

:mod:`switchgear_schemas.claude_code` has the events themselves. ``switchgear hook claude-code`` and the gateway use both.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from switchgear.classify import Classification, classify_result
from switchgear.classify.result import TextRule, client_error, refusal_in_text
from switchgear.guard.rejections import Rejection
from switchgear.redaction import redact
from switchgear_schemas.claude_code import Event, HookCall, duration_ms, says_failed, text
from switchgear_schemas.families import model_name


class Ended(NamedTuple):
    """How a call ended."""

    error: str | None = None
    """The message without secrets. None for a success."""
    classification: Classification | None = None
    """None for a success."""
    duration_ms: float | None = None


def ended(event: Event, by_text: TextRule = refusal_in_text) -> Ended:
    """Return how a call ended, by the event ``PostToolUse`` or ``PostToolUseFailure``.

    Claude Code reports an interruption by the user as a failure. It has the class ``cancelled`` and says nothing about the tool.
    A failure of its MCP client looks like an answer of the server. The client's words show it if they are the whole text.

    Args:
        event: As Claude Code sends it.
        by_text: The rule for what the tool answered: see :func:`~switchgear.classify.result.text_rule`.
    """
    took = duration_ms(event)
    if not says_failed(event):
        return Ended(duration_ms=took)
    if event.get("hook_event_name") == "PostToolUseFailure":
        error = _sendable(text(event.get("error")))
        found = "cancelled" if event.get("is_interrupt") is True else client_error(error) or by_text(error) or "tool"
        return Ended(redact(error), found if isinstance(found, Classification) else Classification(found), took)
    response = event["tool_response"]
    classification = classify_result(response, by_text=by_text)
    if classification is None:
        return Ended(duration_ms=took)
    content = response.get("content")
    said = _sendable(content) if isinstance(content, str) else json.dumps(content)
    return Ended(redact(said), classification, took)


def _sendable(said: str) -> str:
    """Return a text without lone surrogates, which JSON may have and UTF-8 doesn't."""
    return said.encode(errors="replace").decode()


def shown(refusal: Rejection, call: HookCall) -> str:
    """Return the text of a refusal for the model, which knows Claude Code's names of tools."""
    fallback = None if refusal.fallback is None else model_name(refusal.fallback)
    return msgspec.structs.replace(refusal, tool=call.name, fallback=fallback).text
