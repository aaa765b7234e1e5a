"""Why tool calls of a source may be missing."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.records import spans_of
from switchgear_gateway.otlp.sources import MOST, OTHERS, Tally, looks_like_a_tool
from switchgear_gateway.otlp.submission import SubmitResult
from switchgear_gateway.otlp_routes import OtlpRoutes
from switchgear_http.middleware import _KEY
from switchgear_http.principal import LOCAL, Principal, Role
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import TOOL, Kafka, sample, span_request, take


@table(
    ("name", "attributes", "toolish"),
    [
        ("run_tool search", {}, True),
        ("tool", {}, True),
        ("my.tool.search", {}, True),
        ("ToolCall", {}, True),
        ("execute_tool", {}, True),
        ("function_call weather", {}, True),
        ("lookup.__call__", {}, True),
        ("step 3", {"agent.tool.name": "search"}, True),
        ("step 3", {"my_tool_name": "search"}, True),
        ("step 3", {"gen_ai.operation.name": "run_tool", "my.toolName": "search"}, True),
        ("GET /tools", {}, True),
        ("GET /toolbox", {}, False),
        ("ToolNode", {}, False),
        ("stool", {}, False),
        ("tools/list", {}, False),
        ("list_tools", {}, False),
        ("chat gpt", {"gen_ai.operation.name": "chat", "tool_name": "x"}, False),
        ("tools", {"openinference.span.kind": "CHAIN"}, False),
        ("use tool", {"langfuse.observation.type": "generation"}, False),
        ("MCP send tools/list", {"mcp.method.name": "tools/list"}, False),
        ("GET /", {"http.route": "/"}, False),
        ("x" * 1_000_000 + " tool", {}, False),
        ("", {}, False),
    ],
)
def test_a_span_looks_like_a_tool_by_its_name_or_an_attribute_unless_its_convention_says_what_it_is(
    name, attributes, toolish
):
    (span,) = spans_of(span_request({"id": 1, "name": name, "attributes": attributes}))
    assert looks_like_a_tool(span) is toolish


async def test_spans_that_look_like_tools_but_match_no_mapping_are_counted_by_scope():
    ingest, kafka = Ingest(), Kafka()
    names = ("run_tool search", "run_tool fetch", "GET /")
    spans = [
        {"id": number, "name": name, "scope": "my.lib", "attributes": {"x": 1}} for number, name in enumerate(names, 1)
    ]
    await take(ingest, span_request(*spans, {"id": 9, "attributes": TOOL}), kafka.sender("acme"))
    assert ingest.counts.unmatched.of(None) == [("my.lib", 2, "run_tool search")]
    assert (ingest.counts.unmatched.of("acme"), ingest.counts.unmatched.of("other")) == (
        [("my.lib", 2, "run_tool search")],
        [],
    )
    assert kafka.tools == ["get_forecast"]


@pytest.mark.parametrize(
    "name", ["agent_framework", "fastmcp", "langfuse", "mcp_sdk", "openllmetry_langchain", "vercel_ai_7"]
)
async def test_no_span_of_a_library_that_is_read_is_taken_for_an_unknown_tool(name):
    ingest = Ingest()
    await take(ingest, sample(name), Kafka().sender())
    assert ingest.counts.unmatched.of(None) == []


async def test_refused_calls_are_counted_by_reason_without_their_values():
    ingest, kafka = Ingest(), Kafka(SubmitResult(rejected=((0, "tool_name: not yours"),)))
    nameless = {"gen_ai.operation.name": "execute_tool"}
    late = [{"id": 10 + number, "until": 3_000_000_000_000 * number} for number in (1, 2)]
    spans = [{"id": 1, "attributes": nameless}, {"id": 2, "attributes": nameless}, {"id": 3}, *late]
    await take(ingest, span_request(*spans), kafka.sender())
    found = {each.what.partition(":")[0]: each.number for each in ingest.counts.refused.of(None)}
    assert found == {"the tool has no name": 2, "recorded_at": 2, "tool_name": 1}


def test_a_thousand_scopes_take_the_memory_of_fifty():
    tally = Tally()
    for number in range(1_000):
        tally.note("acme", f"scope {number} " + "x" * 10**5, "password=hunter2 " + "y" * 10**5)
    counts = tally.of(None)
    assert len(counts) == MOST + 1
    assert counts[0] == (OTHERS, 950, "")
    assert sum(each.number for each in counts) == tally.total == 1_000
    assert max(len(each.what) + len(each.example) for each in counts) <= 250
    assert not any("hunter2" in each.example for each in counts)
    assert len(tally.of("acme")) == MOST


def routes(ingest):
    registry = CollectorRegistry()
    return OtlpRoutes(ingest, registry), registry


async def answer(part, principal):
    response = await part.sources(Request({"type": "http", _KEY: principal}))
    return json.loads(bytes(response.body))


async def test_the_gateway_says_what_arrived_and_to_a_tenant_its_own_reasons():
    ingest = Ingest()
    part, registry = routes(ingest)
    for tenant in ("acme", "other"):
        unread = {"id": 1, "name": f"run_tool of {tenant}", "scope": "my.lib", "attributes": {"x": 1}}
        nameless = {"id": 2, "attributes": {"gen_ai.operation.name": "execute_tool"}}
        await take(ingest, span_request(unread, nameless), Kafka().sender(tenant))
    assert await answer(part, Principal("a", frozenset({Role.READ}), tenant="acme")) == {
        "unmatched": [{"scope": "my.lib", "spans": 1, "example": "run_tool of acme"}],
        "refused": [{"why": "the tool has no name", "calls": 1}],
    }
    everything = await answer(part, LOCAL)
    assert (everything["records"], everything["calls"], len(everything["unmatched"])) == (4, 0, 2)
    assert registry.get_sample_value("switchgear_gateway_otlp_unmatched") == 2
