"""The name of a tool is found in every format of items, and the list follows its circuit if it hides tools."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from mcp import types
from openai.types.responses import WebSearchTool

from switchgear import BreakerPolicy, OptionError, Switchgear, SwitchgearError
from switchgear.prompts import NamelessToolError, listed_name, named
from switchgear.testing import InMemoryFleet
from tests.support.table import table

pytestmark = pytest.mark.slow


def search(_query: str) -> str:
    return ""


@dataclass
class Tool:
    """A tool as in MCP, LangChain and OpenAI agents."""

    name: str


class CallableObject:
    __name__ = "search"

    def __call__(self) -> None: ...


SHAPES = [
    "search",
    {"type": "function", "function": {"name": "search", "parameters": {}}},  # OpenAI, chat completions
    {"type": "function", "name": "search", "parameters": {}},  # OpenAI, responses
    {"type": "custom", "custom": {}, "name": "search"},
    {"type": "custom", "custom": {"name": "search"}},  # OpenAI, chat completions
    {"toolSpec": {"name": "search", "inputSchema": {}}},  # Bedrock
    {"function_declarations": [{"name": "search"}]},  # Gemini
    {"name": "search", "input_schema": {"type": "object"}},  # Anthropic
    {"type": "search_20250305", "name": "search"},  # Anthropic, of its own
    {"name": "search", "inputSchema": {"type": "object"}},  # MCP
    {"type": "search"},  # OpenAI, of its own
    {"search": {}},  # Gemini, of its own
    {"systemTool": {"name": "search"}},  # Bedrock, of its own
    SimpleNamespace(type="search"),  # OpenAI, of its own
    Tool("search"),
    SimpleNamespace(type="function", function=SimpleNamespace(name="search")),
    SimpleNamespace(type="custom", custom=SimpleNamespace(name="search")),
    search,
    CallableObject(),
    functools.partial(functools.partial(search), "x"),
]


def available(tools, refuses, **options):
    return [tool for name, tool in named(tools, **options) if not refuses(name)]


def refuses_search(tool):
    return tool == "search"


@table("tool", SHAPES)
def test_finds_the_name_in_every_format(tool):
    assert listed_name(tool) == "search"
    assert available([tool], refuses_search) == []
    kept = available([tool], lambda _tool: False)
    assert len(kept) == 1
    assert kept[0] is tool


def test_available_keeps_order_and_items():
    tools = [{"name": "a"}, "search", Tool("b"), search, "c"]
    kept = available(tools, refuses_search)
    assert kept == [tools[0], tools[2], tools[4]]
    assert tools[1] == "search"


def test_finds_the_name_of_real_mcp_types():
    tool = types.Tool.model_validate({"name": "search", "inputSchema": {"type": "object"}})
    assert available([tool], refuses_search) == []
    assert available([tool.model_dump(by_alias=True)], refuses_search) == []


@pytest.mark.parametrize(
    "tool",
    [
        {"cachePoint": {"type": "default"}},  # Bedrock, no tool at all
        {"google_search": {}},
        WebSearchTool(type="web_search"),
        WebSearchTool(type="web_search").model_dump(),
    ],
)
def test_keeps_hosted_tools_and_marks(tool):
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), tool_list="hide", hide_after_s=0)
    gear.try_acquire("search").failure(ConnectionError())
    assert gear.available(["search", tool, "other"]) == [tool, "other"]


def test_available_takes_any_iterable():
    assert available((name for name in ("a", "search")), refuses_search) == ["a"]


@pytest.mark.parametrize(
    "circuit_of",
    [
        {"get_forecast": "mcp:weather:get_forecast"},
        lambda name: f"mcp:weather:{name}" if name == "get_forecast" else name,
    ],
)
def test_circuit_of_maps_names_to_circuits(circuit_of):
    asked = []

    def refuses(circuit):
        asked.append(circuit)
        return circuit == "mcp:weather:get_forecast"

    assert available(["get_forecast", "search"], refuses, circuit_of=circuit_of) == ["search"]
    assert asked == ["mcp:weather:get_forecast", "search"]


def test_list_is_empty_if_all_circuits_refuse():
    assert available(["a", "b"], lambda _tool: True) == []


@table(
    ("tool", "kind"),
    [
        ({}, "dict"),
        ({"type": "function"}, "dict"),
        ({"type": "function", "function": {}}, "dict"),
        ({"name": ""}, "dict"),
        ({"name": 5}, "dict"),
        ({"toolSpec": {}}, "dict"),
        ({"search": "x"}, "dict"),
        ({5: {}}, "dict"),
        (SimpleNamespace(type="function"), "SimpleNamespace"),
        ("", "str"),
        (None, "NoneType"),
        ({"function_declarations": [{"name": "a"}, {"name": "b"}]}, "dict"),
        (Tool(name=""), "Tool"),
    ],
)
def test_error_has_position_and_type_of_a_nameless_item(tool, kind):
    with pytest.raises(NamelessToolError, match=rf"tools\[1\] is a {kind} without a name"):
        available(["a", tool], lambda _tool: False)


def test_finds_the_circuit_of_a_guarded_function():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), tool_list="hide", hide_after_s=0)
    guarded = gear.guard("mcp:search:web")(search)
    assert gear.available([guarded, search]) == [guarded, search]
    gear.try_acquire("mcp:search:web").failure(ConnectionError())
    assert gear.available([guarded, search], circuit_of={"search": "another"}) == [search]


def test_finds_the_circuit_of_a_partial_of_a_guarded_function():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), tool_list="hide", hide_after_s=0)
    bound = functools.partial(gear.guard("mcp:search:web")(search), "x")
    assert gear.available([bound]) == [bound]
    gear.try_acquire("mcp:search:web").failure(ConnectionError())
    assert gear.available([bound]) == []


@table("tools", ["search", b"search", {"name": "search"}, None, 5, Tool("search")])
def test_rejects_what_is_not_a_list_of_tools(tools):
    with pytest.raises(SwitchgearError, match="tools must be a list of tools, not"):
        Switchgear.local().available(tools)


@table("wrong", [{"search": None}, {"search": ""}, lambda _name: None, ["search"], 5])
def test_rejects_an_impossible_name_of_circuit_of(wrong):
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1))
    gear.try_acquire("search").failure(ConnectionError())
    with pytest.raises(SwitchgearError, match="circuit_of"):
        gear.available(["search"], circuit_of=wrong)
    with pytest.raises(SwitchgearError, match="name_of"):
        gear.notice(name_of=wrong)


async def awaited(name):
    return name


@pytest.mark.parametrize("wrong", [3, ["search"], "search", awaited])
def test_rejects_an_impossible_circuit_of(wrong):
    gear = Switchgear.local()
    with pytest.raises(OptionError, match="circuit_of must be a"):
        gear.available([], circuit_of=wrong)
    with pytest.raises(OptionError, match="name_of must be a"):
        gear.notice(name_of=wrong)
    with gear.session("s-1", max_calls=1):
        gear.call("t", int)
        with pytest.raises(OptionError, match="name_of must be a"):
            gear.notice(name_of=wrong)


@pytest.mark.parametrize("scope", ["user", "session"])
def test_circuits_of_a_session_and_its_user_decide(scope):
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1, scope=scope), tool_list="hide", hide_after_s=0
    )
    with gear.session("s-1", user_id="ana"):
        gear.try_acquire("search").failure(ConnectionError())
        assert gear.available(["search", "other"]) == ["other"]
        assert "unavailable: search." in gear.notice()
    with gear.session("s-2", user_id="bob"):
        assert gear.available(["search", "other"]) == ["search", "other"]
        assert gear.notice() == ""


def test_fleet_circuits_of_a_session_decide():
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=1, scope="session"))
    gear, other = fleet.gear(), fleet.gear("other", tool_list="hide", hide_after_s=0)
    gear.try_acquire("search", session_id="s-1").failure(ConnectionError())
    with other.session("s-1"):
        assert not other.try_acquire("search")
        assert other.available(["search"]) == []
        assert "unavailable: search." in other.notice()
    with other.session("s-2"):
        assert other.available(["search"]) == ["search"]
        assert other.notice() == ""


def test_available_creates_no_circuit():
    gear = Switchgear.local()
    gear.available([f"invented{number}" for number in range(100)])
    assert gear._decision.local.all_now() == []
