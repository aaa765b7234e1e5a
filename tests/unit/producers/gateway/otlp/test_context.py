"""What a tool call gets from other spans of its trace: the agent's session and user, and the tokens of models under a tool."""

from __future__ import annotations

import pytest

from switchgear_gateway.otlp.context import TraceContext, tokens_of
from switchgear_gateway.otlp.executions import session_of
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.records import spans_of
from switchgear_schemas.enums import MOST_TOKENS
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import MCP, SERVER, TOOL, Kafka, sample, span_request, take

AGENT = {"gen_ai.operation.name": "invoke_agent"}
CHAT = {"gen_ai.operation.name": "chat"}


def agent(session, user="ana", **span):
    return {"id": 9, "until": 500, "attributes": AGENT | {"gen_ai.conversation.id": session, "user.id": user}} | span


def chat(number, parent, used=(100, 20), **span):
    tokens = dict(zip(("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"), used, strict=True))
    return {"id": number, "parent": parent, "until": 50, "attributes": CHAT | tokens} | span


async def calls_of(*requests, ingest=None):
    kafka, ingest = Kafka(), ingest or Ingest()
    for spans in requests:
        await take(ingest, span_request(*spans), kafka.sender())
    await ingest.send_due(everything=True)
    return kafka.acknowledged


async def test_the_session_of_the_agents_span_is_that_of_its_tool_calls():
    (call,) = await calls_of([{"id": 1, "parent": 5}, {"id": 5, "parent": 9, "attributes": {}}, agent("s-1")])
    assert (call.session_id, call.user_id) == ("s-1", "ana")


async def test_a_call_that_names_its_session_keeps_it():
    own = TOOL | {"session.id": "own"}
    (call,) = await calls_of([{"id": 1, "parent": 9, "attributes": own}, agent("s-1")])
    assert (call.session_id, call.user_id) == ("own", "ana")


async def test_a_trace_with_two_sessions_gives_each_call_that_of_its_own_agent():
    spans = [{"id": 1, "parent": 8}, {"id": 2, "parent": 9}, {"id": 3}, agent("a", "ana", id=8), agent("b", "bo")]
    calls = await calls_of(spans)
    assert [(call.session_id, call.user_id) for call in calls] == [("a", "ana"), ("b", "bo"), (None, "")]


async def test_a_call_beside_the_span_with_the_session_gets_that_of_the_trace():
    (call,) = await calls_of([{"id": 4, "attributes": {"user.id": "ana", "session.id": "s"}}, {"id": 1}])
    assert (call.session_id, call.user_id) == ("s", "ana")


async def test_other_tenants_and_traces_say_nothing():
    ingest, kafka = Ingest(), Kafka()
    await take(ingest, span_request(agent("s-1")), kafka.sender("acme"))
    await take(ingest, span_request(agent("s-2", trace=bytes(15) + b"x")), kafka.sender())
    (call,) = await calls_of([{"id": 1, "parent": 9}], ingest=ingest)
    assert call.session_id is None


async def test_a_call_that_waited_gets_the_session_that_came_in_the_meantime():
    waits = {"id": 3, "parent": 9, "kind": SERVER, "attributes": MCP}
    (call,) = await calls_of([waits], [agent("s-1")])
    assert call.session_id == "s-1"


async def test_tokens_of_models_under_a_tool_are_the_tools():
    spans = [
        chat(1, parent=3),
        chat(2, parent=4, used=(7, 0)),
        {"id": 3, "parent": 4, "attributes": AGENT | {"gen_ai.usage.input_tokens": 107}, "until": 60},
        {"id": 4, "parent": 9},
        chat(5, parent=9, used=(5_000, 500)),
        agent("s"),
    ]
    (call,) = await calls_of(spans)
    assert (call.input_tokens, call.output_tokens) == (107, 20)


async def test_tokens_that_arrive_before_their_tool_count_and_an_export_that_comes_twice_adds_none():
    calls = await calls_of([chat(1, parent=2)], [chat(1, parent=2)], [{"id": 2}], [{"id": 2}])
    assert [(call.input_tokens, call.output_tokens) for call in calls] == [(100, 20)]


async def test_tokens_of_a_tool_within_a_tool_are_those_of_the_inner_one():
    inner = {"id": 2, "parent": 3, "attributes": TOOL | {"gen_ai.tool.name": "search"}}
    calls = await calls_of([chat(1, parent=2), inner, {"id": 3, "until": 200}])
    assert {call.tool_name: call.input_tokens for call in calls} == {"search": 100, "get_forecast": 0}


async def test_tokens_under_any_span_of_a_call_are_the_calls():
    server = {"id": 2, "parent": 3, "kind": SERVER, "attributes": MCP}
    (call,) = await calls_of([chat(1, parent=2), server, {"id": 3, "until": 200}])
    assert call.input_tokens == 100


async def test_tokens_on_the_tools_own_span_are_kept():
    own = TOOL | {"gen_ai.usage.output_tokens": 3}
    (call,) = await calls_of([chat(1, parent=2), {"id": 2, "attributes": own}])
    assert (call.input_tokens, call.output_tokens) == (0, 3)


async def test_a_model_span_within_a_model_span_is_the_same_call():
    (call,) = await calls_of([chat(1, parent=2), chat(2, parent=3, until=60), {"id": 3}])
    assert call.input_tokens == 100


@table(
    ("attributes", "tokens"),
    [
        ({"openinference.span.kind": "LLM", "llm.token_count.prompt": 5, "llm.token_count.completion": 2}, (5, 2)),
        ({"ai.operationId": "ai.generateText.doGenerate", "ai.usage.promptTokens": 5}, (5, 0)),
        ({"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 5}, None),
        ({"llm.request.type": "chat", "gen_ai.usage.prompt_tokens": 5}, (5, 0)),
        (AGENT | {"gen_ai.usage.input_tokens": 5}, None),
        (CHAT | {"gen_ai.usage.input_tokens": 2**62}, (MOST_TOKENS, 0)),
        (CHAT | {"gen_ai.usage.input_tokens": -5}, None),
        (CHAT | {"gen_ai.usage.input_tokens": "5"}, None),
        (CHAT, None),
        ({}, None),
    ],
)
def test_tokens_are_those_of_models_and_not_the_totals_of_agents(attributes, tokens):
    (span,) = spans_of(span_request({"id": 1, "attributes": attributes}))
    assert tokens_of(span) == tokens


async def test_sums_of_tokens_never_wrap():
    many = [chat(number, parent=1, used=(2**62, 2**62)) for number in range(2, 9)]
    (call,) = await calls_of([*many, {"id": 1}])
    assert (call.input_tokens, call.output_tokens) == (MOST_TOKENS, MOST_TOKENS)


async def test_parents_in_a_circle_end():
    spans = [chat(1, parent=2), {"id": 2, "parent": 3, "attributes": {}}, {"id": 3, "parent": 2, "until": 200}]
    (call,) = await calls_of(spans)
    assert call.input_tokens == 100


def test_the_context_is_bounded():
    context = TraceContext(remembered=10)
    for number in range(1_000):
        named = {
            "id": number + 1,
            "trace": number.to_bytes(16, "big"),
            "attributes": CHAT | {"session.id": "s" * 10**4},
        }
        named["attributes"] |= {"gen_ai.usage.input_tokens": 1}
        context.note("", spans_of(span_request(named)), frozenset())
    held = (context._seen, context._persons, context._tokens)
    assert [len(each) for each in held] == [10, 10, 10]
    assert {len(each.session) for each in context._persons.values()} == {256}


def test_spans_with_ids_of_a_wrong_length_are_left_out():
    context = TraceContext()
    context.note("", spans_of(span_request({"id": 1, "trace": b"short", "attributes": {"session.id": "s"}})), ())
    assert not context._persons


@table(
    ("attributes", "session"),
    [
        ({"langsmith.trace.session_id": "project", "langsmith.metadata.thread_id": "t-1"}, "t-1"),
        ({"langsmith.metadata.session_id": "s-1", "langsmith.metadata.thread_id": "t-1"}, "s-1"),
        ({"langsmith.trace.session_id": "project", "mcp.session.id": "connection"}, None),
        ({"langsmith.metadata.conversation_id": 7}, "7"),
        ({"gen_ai.conversation.id": "", "session.id": "s"}, "s"),
    ],
)
def test_the_project_of_langsmith_and_a_connection_are_no_session(attributes, session):
    assert session_of(attributes) == session


@pytest.mark.parametrize("name", ["google_adk", "pydantic_ai_mcp"])
async def test_the_spans_of_a_library_give_their_calls_the_session_of_their_agent(name):
    kafka, ingest = Kafka(), Ingest()
    await take(ingest, sample(name), kafka.sender())
    await ingest.send_due(everything=True)
    assert {each.session_id for each in kafka.acknowledged} == {"session-7"}
