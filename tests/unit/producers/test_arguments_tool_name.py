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
        (None, "The name of a tool must be text, not None"),
        ("", "The name of a tool must have 1 to 256 characters, not 0"),
        (5, "The name of a tool must be text, not 5"),
        (["a"], r"The name of a tool must be text, not \['a'\]"),
        ("caf\udce9", "must be text that can be encoded as UTF-8, not 'caf"),
        ("x" * (MAX_NAME_LENGTH + 1), "must have 1 to 256 characters, not 257"),
    ],
)
def test_rejects_an_impossible_name_of_a_tool(gear, ask, tool, said):
    if ask == "answer" and not isinstance(tool, str):
        return  # that is a function then, and not guarded
    with pytest.raises(OptionError, match=said):
        getattr(gear, ask)(*((tool,) if ask in {"guard", "permit"} else (tool, len, "")))


async def test_acall_rejects_an_impossible_name_of_a_tool(gear):
    with pytest.raises(OptionError, match="The name of a tool must be text, not None"):
        await gear.acall(None, len, "")


def search(query):
    return query


@pytest.mark.parametrize("ask", ["guard", "permit", "try_acquire", "is_open"])
def test_rejects_a_function_in_place_of_the_name(gear, ask):
    with pytest.raises(OptionError, match=r"must be text, not <function search .*>\. For example @gear\.guard"):
        getattr(gear, ask)(search)


async def test_atry_acquire_rejects_a_function_in_place_of_the_name(gear):
    with pytest.raises(OptionError, match="not <function search"):
        await gear.atry_acquire(search)


def test_accepts_any_short_text_as_a_name(gear):
    for tool in ("x" * MAX_NAME_LENGTH, "süß 搜索", Tool.SEARCH, " "):
        assert gear.call(tool, len, "four") == gear.guard(tool)(len)("four") == 4
