from __future__ import annotations

import threading

import pytest

from switchgear_gateway.otlp import calls
from switchgear_gateway.otlp import ingest as module
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.submission import SubmitResult, TryAgainError
from tests.support.clock import Clock
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import MCP, SERVER, TOOL, Kafka, log_request, sample, span_request, take

WAITS = {"id": 3, "parent": 2, "kind": SERVER, "attributes": MCP}
LOG = {"tool_name": "Bash", "success": "true", "session.id": "s", "tool_use_id": "t1"}


async def test_the_calls_of_a_request_are_acknowledged_before_its_answer():
    kafka = Kafka()
    answer = await take(Ingest(), sample("openinference_langchain"), kafka.sender())
    assert answer == (0, "")
    assert len(kafka.acknowledged) == 3
    assert kafka.resent == [False]


async def test_the_spans_of_a_large_request_are_read_in_a_thread_of_their_own(monkeypatch):
    threads = set()
    monkeypatch.setattr(calls, "of_span", lambda _span: threads.add(threading.current_thread()))
    await take(Ingest(), span_request({"id": 1, "attributes": {"x": "y" * 100_000}}), Kafka().sender())
    assert threads
    assert threading.current_thread() not in threads


async def test_a_request_without_tool_calls_submits_nothing():
    kafka = Kafka(RuntimeError("must not be asked"))
    ingest = Ingest()
    assert await take(ingest, span_request({"id": 1, "attributes": {"x": 1}}), kafka.sender()) == (0, "")
    assert ingest.counts.records == 1
    assert kafka.answers


@table(
    ("span", "reason"),
    [
        ({"id": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}}, "the tool has no name"),
        ({"id": 1, "trace": b"short"}, "no valid trace id"),
        ({"id": 1, "trace": bytes(16)}, "no valid trace id"),
        ({"id": 1, "until": -1_790_000_000_000}, "no end time"),
        ({"id": 1, "attributes": TOOL | {"gen_ai.tool.name": "x" * 300}}, "tool_name: "),
        ({"id": 1, "until": 3_000_000_000_000}, "recorded_at: "),
    ],
)
async def test_a_call_that_cannot_be_used_is_rejected_with_its_reason_and_the_others_are_kept(span, reason):
    kafka = Kafka()
    rejected, reasons = await take(Ingest(), span_request(span, {"id": 2}), kafka.sender())
    assert rejected == 1
    assert reason in reasons
    assert len(kafka.acknowledged) == 1


async def test_what_kafkas_side_rejects_is_rejected_with_its_reason():
    kafka = Kafka(SubmitResult(rejected=[(0, "the token may not send for this tool")]))
    ingest = Ingest()
    answer = await take(ingest, span_request({"id": 1}, {"id": 2}), kafka.sender())
    assert answer == (1, "the token may not send for this tool")
    assert (ingest.counts.calls, ingest.counts.rejected) == (1, 1)


@pytest.mark.parametrize("send", ["traces", "logs"])
async def test_a_batch_that_was_not_taken_is_taken_when_it_is_sent_again(send):
    kafka, ingest = Kafka(SubmitResult(retry_after_s=3)), Ingest()
    request = span_request({"id": 1}) if send == "traces" else log_request("claude_code.tool_result", LOG)
    with pytest.raises(TryAgainError) as raised:
        await take(ingest, request, kafka.sender())
    assert raised.value.retry_after_s == 3
    await take(ingest, request, kafka.sender())
    assert len(kafka.acknowledged) == 1
    assert kafka.resent == [False]


@pytest.mark.parametrize("answer", [SubmitResult(unknown=[1]), RuntimeError("broken pipe")])
async def test_only_unknown_calls_are_sent_again_and_marked_as_resent(answer):
    kafka, ingest = Kafka(answer), Ingest()
    request = span_request({"id": 1}, {"id": 2})
    with pytest.raises(TryAgainError):
        await take(ingest, request, kafka.sender())
    await take(ingest, request, kafka.sender())
    assert len(kafka.acknowledged) == 2
    assert len({each.metric_id for each in kafka.acknowledged}) == 2
    assert kafka.resent[-1] is True


async def test_a_submission_that_takes_too_long_is_unknown(monkeypatch):
    monkeypatch.setattr(module, "_SUBMIT_LIMIT_S", 0.01)

    async def never(executions, *, resent):
        await module.asyncio.sleep(3600)

    sender = Kafka().sender()
    with pytest.raises(TryAgainError):
        await take(Ingest(), span_request({"id": 1}), type(sender)(never))


async def test_a_log_that_is_sent_twice_counts_once_and_two_calls_count_twice():
    kafka, ingest = Kafka(), Ingest()
    for call in ("t1", "t1", "t2"):
        await take(ingest, log_request("claude_code.tool_result", LOG | {"tool_use_id": call}), kafka.sender())
    assert [each.metadata["call_id"] for each in kafka.acknowledged] == ["t1", "t2"]


async def test_a_call_that_waited_is_sent_when_its_wait_is_over():
    kafka, clock = Kafka(), Clock(0.0)
    ingest = Ingest(clock=clock)
    await take(ingest, span_request(WAITS), kafka.sender())
    await ingest.send_due()
    assert kafka.acknowledged == []
    assert ingest.waiting_since == 0.0
    clock.now = 6.0
    await ingest.send_due()
    assert kafka.tools == ["mcp:agent:get_forecast"]
    assert ingest.waiting_since is None


async def test_a_call_that_waited_and_could_not_be_sent_is_tried_again_as_resent():
    kafka, clock = Kafka(RuntimeError("down"), SubmitResult(retry_after_s=1)), Clock(0.0)
    ingest = Ingest(clock=clock)
    await take(ingest, span_request(WAITS), kafka.sender())
    clock.now = 6.0
    for _ in range(3):
        assert kafka.acknowledged == []
        assert ingest.waiting_since is not None
        await ingest.send_due()
    assert len(kafka.acknowledged) == 1
    assert kafka.resent == [True]


async def test_a_call_that_waited_and_can_never_be_sent_is_counted_as_lost():
    kafka, clock = Kafka(*(RuntimeError("down") for _ in range(50))), Clock(0.0)
    ingest = Ingest(clock=clock)
    await take(ingest, span_request(WAITS), kafka.sender())
    clock.now = 6.0
    for _ in range(50):
        await ingest.send_due()
    assert ingest.counts.lost == 1
    assert ingest.waiting_since is None


async def test_closing_sends_what_still_waits():
    kafka = Kafka()
    ingest = Ingest()
    await take(ingest, span_request(WAITS), kafka.sender())
    await ingest.close()
    assert len(kafka.acknowledged) == 1


async def test_the_text_of_a_failure_counts_for_the_tools_that_the_user_named():
    kafka = Kafka()
    ingest = Ingest(outages_in_text=["get_*"])
    other = TOOL | {"gen_ai.tool.name": "read_page"}
    refused = "all connection attempts failed"
    await take(ingest, span_request({"id": 1, "error": refused}), kafka.sender())
    await take(ingest, span_request({"id": 2, "error": refused, "attributes": other}), kafka.sender())
    named = TOOL | {"error.type": "my.PoolTimeout"}
    await take(
        ingest, span_request({"id": 3, "at": 200, "until": 300, "error": "x", "attributes": named}), kafka.sender()
    )
    found = {each.tool_name: [] for each in kafka.acknowledged}
    for each in kafka.acknowledged:
        found[each.tool_name].append((each.error_class, each.status))
    assert found == {
        "get_forecast": [("transport", "error"), ("timeout", "timeout")],
        "read_page": [("unknown", "error")],
    }


async def test_the_text_of_a_logged_failure_counts_for_the_tools_that_the_user_named():
    kafka = Kafka()
    failed = LOG | {"success": "false", "error": "connection refused"}
    for globs in ((), ("Bash",)):
        await take(Ingest(outages_in_text=globs), log_request("claude_code.tool_result", failed), kafka.sender())
    assert [each.error_class for each in kafka.acknowledged] == ["tool", "transport"]


async def test_a_failure_whose_type_says_what_it_was_keeps_its_class_whatever_its_text_says():
    kafka = Kafka()
    refused = TOOL | {"error.type": "401"}
    span = {"id": 1, "error": "connection refused", "attributes": refused}
    await take(Ingest(outages_in_text=["*"]), span_request(span), kafka.sender())
    assert [each.error_class for each in kafka.acknowledged] == ["auth"]


async def test_an_outage_in_a_trusted_text_says_more_than_the_word_of_the_framework():
    kafka = Kafka()
    spans = [
        {"id": 1, "error": "tool failed"},
        {"id": 2, "parent": 1, "at": 1, "until": 99, "attributes": MCP, "error": "all connection attempts failed"},
    ]
    await take(Ingest(outages_in_text=["get_forecast"]), span_request(*spans), kafka.sender())
    assert [each.error_class for each in kafka.acknowledged] == ["transport"]
