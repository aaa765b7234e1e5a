"""Hostile names and errors through the gateway: executions, decisions, hooks and OpenTelemetry."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from switchgear import BreakerPolicy
from switchgear.testing import InMemoryFleet
from switchgear_gateway.checking import check_executions
from switchgear_gateway.names import any_name, check_name, name_check
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import LOCAL
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.errors import InvalidExecutionError
from tests.support.gateway_app import GatewayClient, gateway
from tests.support.hostile import QUOTED, hostile, shown, skeleton
from tests.support.table import table
from tests.unit.producers.gateway.conftest import MemorySubmit
from tests.unit.producers.gateway.otlp.support import span_request, take

pytestmark = pytest.mark.slow
TEXTS = [each.text for each in hostile()]
ONE = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)
RULE = "must be 1 to 256 letters, digits, spaces or _ . : / @ -, got "


def allowed(name: str) -> bool:
    try:
        check_name("tool", name)
    except InvalidExecutionError:
        return False
    return True


REFUSED = [text for text in TEXTS if not allowed(text)]


def client(names: Any = check_name) -> GatewayClient:
    """A client of a gateway whose fleet opens at the first failure."""
    fleet = InMemoryFleet(ONE)
    return GatewayClient(
        gateway(fleet.gear("gateway"), MemorySubmit(fleet), wall=fleet.clock.wall, shared=Shared(names=names))
    )


def test_nearly_all_hostile_texts_are_no_names():
    left = [text for text in TEXTS if text not in REFUSED]
    assert all(text.isprintable() and not set(text) & set("<>`{}[]\"'\\|") for text in left)
    assert len(REFUSED) > 160


@table("name", ["search", "mcp:my server:get_forecast", "ns/tool@v1.2-rc", "café", "天气", "a" * 256, ""])
def test_names_of_the_alphabet_are_taken(name: str):
    assert allowed(name)


@table("name", ["a|b", "a\u202eb", "<b>", "a\nb", "a" * 257, "a(b)", "\u3164", "a\tb", "x\u200b"])
def test_other_names_are_refused(name: str):
    assert not allowed(name)
    any_name("tool", name)


def test_the_setting_allows_every_name():
    assert name_check(any_names=True) is any_name
    assert name_check(any_names=False) is check_name


@table("field", ["tool_name", "service", "fallback_tool"])
@table("text", [each for each in REFUSED if "\ud800" not in each])
def test_an_execution_with_a_hostile_name_is_refused_alone_and_the_reason_names_the_field(text: str, field: str):
    good = {"tool_name": "search", "status": "success"}
    items = [json.dumps(each).encode() for each in (good, good | {field: text}, good)]
    found = check_executions(items, LOCAL)
    assert found.sendable == 2
    ((index, reason),) = found.rejected
    assert index == 1
    assert reason.startswith(f"{field}: ")
    assert reason.isprintable()
    if len(text) <= MAX_NAME_LENGTH:
        assert reason.startswith(f"{field}: {RULE}")
        assert check_executions(items, LOCAL, names=any_name).sendable == 3


async def test_a_question_with_a_hostile_name_is_refused_and_the_problem_names_the_field():
    asked = client()
    for text in REFUSED:
        if "\ud800" in text:
            continue
        for field, sent in (
            ("tool", {"tool": text}),
            ("service", {"tool": "t", "service": text}),
            ("fallbacks[1]", {"tool": "t", "fallbacks": ["a", text]}),
        ):
            found = await asked.post("/v1/decide", **sent)
            assert found.status_code == 422, (field, text)
            problem = found.json()
            assert problem["detail"].startswith(f"{field}: "), problem
            assert problem["detail"].isprintable()
            assert "SWITCHGEAR_GATEWAY_ANY_NAMES" in problem["hint"] or len(text) > MAX_NAME_LENGTH


async def test_an_event_of_claude_code_about_a_hostile_name_is_refused_and_its_call_goes_on():
    asked = client()
    for text in REFUSED:
        if "\ud800" in text:
            continue
        for event in ("PreToolUse", "PostToolUse"):
            found = await asked.hook(event, tool_name=f"mcp__srv__{text}", tool_use_id="t", tool_input={})
            assert found.status_code in {200, 422}, text
            assert found.status_code == 422 or found.json() == {}, "no answer: the call goes on"


async def test_a_gateway_that_takes_every_name_shows_models_quoted_ones():
    asked = client(any_name)
    for text in TEXTS:
        if "\ud800" in text or len(text) > MAX_NAME_LENGTH:
            continue
        await asked.call(text, "error", error_message="no route")
        refused = await asked.decide(text)
        assert shown(refused["text"], text).startswith(f"The tool {QUOTED} is unavailable (circuit open).")
        assert refused["toolFailure"]["agentGuidance"] == refused["text"]


async def test_a_hostile_error_reaches_no_model_by_a_decision_a_hook_or_a_notice():
    asked = client()
    expected: set[str] = set()
    for number, text in enumerate(["no route", *TEXTS]):
        if "\ud800" in text:
            continue
        tool, name = f"mcp:srv{number}:t", f"mcp__srv{number}__t"
        await asked.call(tool, "error", error_message=text, error_class="transport")
        refused = await asked.decide(tool)
        answer = await asked.hook("PreToolUse", tool_name=name, tool_use_id="t", tool_input={})
        reason = answer.json()["hookSpecificOutput"]["permissionDecisionReason"]
        start = await asked.hook("SessionStart", query=f"?tools={name}")
        context = start.json()["hookSpecificOutput"]["additionalContext"]
        failure = refused["toolFailure"]["agentGuidance"]
        read = [refused["text"].replace(tool, "T"), failure.replace(tool, "T"), reason.replace(name, "T")]
        expected |= {skeleton(each) for each in (*read, context.replace(name, "T"))}
    assert len(expected) == 2, "one refusal and one notice"


async def test_hostile_names_and_errors_in_traces_are_refused_or_told_in_our_words():
    sent: list[Any] = []

    async def submit(runs: Any, _turn: Any, *, resent: bool) -> Any:
        sent.extend(runs)

        async def wait() -> list[int]:
            return []

        return SimpleNamespace(wait=wait, refused=[])

    senders = Senders(Authenticator(), SimpleNamespace(submit=submit, rejected=0), Shared())
    ingest = Ingest()
    for number, text in enumerate(REFUSED, 1):
        if "\ud800" in text:
            continue
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": text}
        request = span_request({"id": number, "error": text, "attributes": attributes})
        answer = await take(ingest, request, senders.of(LOCAL))
        assert answer.rejected == 1, text
        assert answer.reasons.startswith("tool_name: "), answer.reasons
        assert answer.reasons.isprintable()
    assert not sent
    services = span_request({"id": 1}, resource={"service.name": "<b>"})
    assert (await take(ingest, services, senders.of(LOCAL))).reasons.startswith(f"service: {RULE}")
