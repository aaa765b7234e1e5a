"""Hostile names and errors in what adapters of MCP answer, the proxy's too: the result's text and its ``toolFailure``."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear import BreakerPolicy
from switchgear.classify.result import classify_result
from switchgear.classify.tool_failure import META_KEY, is_refusal
from switchgear.integrations import mcp_client, mcp_server
from switchgear.integrations.mcp_results import last_words
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from switchgear.testing import InMemoryFleet
from switchgear_schemas.enums import MAX_NAME_LENGTH
from tests.support.hostile import QUOTED, hostile, shown
from tests.support.table import table

pytestmark = pytest.mark.slow
ONE = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)
NAMES = [each.text for each in hostile() if len(each.text) <= MAX_NAME_LENGTH and "\ud800" not in each.text]


@pytest.fixture(scope="module")
def fleet():
    return InMemoryFleet(ONE)


@table("text", NAMES)
def test_a_refused_call_tells_its_client_nothing_but_a_quoted_name(text: str, fleet: InMemoryFleet):
    fleet.gear("caller").try_acquire(text).failure(ConnectionError(text))  # type: ignore[union-attr]
    calls = ToolCalls(fleet.gear("proxy"), terminal_after=1)
    refused = calls.begin(text)
    assert isinstance(refused, RefusedCall)
    results: list[Any] = [
        mcp_client._refusal(RefusedCall(refused.rejection, False, refused.at, refused.call_id)),
        mcp_server._refusal(refused, ends_run=False),
    ]
    read = [result.content[0].text for result in results]
    read += [result.meta[META_KEY]["agentGuidance"] for result in results]
    for each in read:
        assert shown(each, text).startswith(f"The tool {QUOTED} is unavailable (circuit open). The rule ")
        assert "Its last error was a broken connection." in each
        assert is_refusal(each), "a guard behind this one must know the refusal"
    found = classify_result({"isError": True, "content": [{"type": "text", "text": read[0]}]})
    assert found is not None
    assert found.error_class == "policy"
    assert shown(last_words(refused), text).startswith("The run ends: too many tool calls were refused. The tool ")


@table("text", NAMES)
def test_a_name_that_a_model_makes_up_is_one_quotation(text: str):
    calls = ToolCalls(InMemoryFleet().gear("proxy", max_caller_errors=1, caller_errors_without_session=True))
    assert calls.unknown(text) is None
    calls.unknown_ended(text)
    refused = calls.unknown(text)
    assert refused is not None
    assert shown(refused.text, "no such name").startswith(
        f"Your last call of tools that don't exist was rejected: {QUOTED}."
    )
