"""The names of tools are checked where they are given."""

from __future__ import annotations

import enum

import pytest

from switchgear import OptionError
from switchgear_schemas.enums import MAX_NAME_LENGTH


class Tool(enum.StrEnum):
    SEARCH = "search"


@pytest.mark.parametrize("ask", ["guard", "permit", "call", "answer"])
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (None, "A tool must be a name, not None"),
        ("", "The name of a tool is empty"),
        (5, "A tool must be a name, not 5"),
        (["a"], r"A tool must be a name, not \['a'\]"),
        ("caf\udce9", r"can't be encoded as UTF-8: .*\. tool.encode"),
        ("x" * (MAX_NAME_LENGTH + 1), "has 257 characters: 'xxxx.* The most is 256"),
    ],
)
def test_rejects_an_impossible_name_of_a_tool(gear, ask, tool, said):
    if ask == "answer" and not isinstance(tool, str):
        return  # that is a function then, and not guarded
    with pytest.raises(OptionError, match=said):
        getattr(gear, ask)(*((tool,) if ask in {"guard", "permit"} else (tool, len, "")))


async def test_acall_rejects_an_impossible_name_of_a_tool(gear):
    with pytest.raises(OptionError, match="A tool must be a name, not None"):
        await gear.acall(None, len, "")


def search(query):
    return query


@pytest.mark.parametrize("ask", ["guard", "permit", "try_acquire", "is_open"])
def test_rejects_a_function_in_place_of_the_name(gear, ask):
    said = r"A tool must be a name, not the function search\. Pass the name first: @gear.guard\(\"tool\"\)"
    with pytest.raises(OptionError, match=said):
        getattr(gear, ask)(search)


@pytest.mark.parametrize("ask", ["guard", "permit", "try_acquire", "is_open"])
def test_the_message_names_the_tool_of_a_guarded_function(gear, ask):
    guarded = gear.guard("mcp:web:search")(search)
    with pytest.raises(
        OptionError, match=r'not the function search\. It is guarded as "mcp:web:search": pass that name'
    ):
        getattr(gear, ask)(guarded)


async def test_atry_acquire_rejects_a_function_in_place_of_the_name(gear):
    with pytest.raises(OptionError, match="not the function search"):
        await gear.atry_acquire(search)


def test_accepts_any_short_text_as_a_name(gear):
    for tool in ("x" * MAX_NAME_LENGTH, "süß 搜索", Tool.SEARCH, " "):
        assert gear.call(tool, len, "four") == gear.guard(tool)(len)("four") == 4
