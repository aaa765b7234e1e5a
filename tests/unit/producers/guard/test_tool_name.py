"""A tool has a name, and what can't be one is told where it is given."""

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
        (None, "A tool is a name, not None"),
        ("", "A tool is a name, not ''"),
        (5, "A tool is a name, not 5"),
        (["a"], r"A tool is a name, not \['a'\]"),
        ("caf\udce9", r"has characters that UTF-8 can't hold\. tool.encode"),
        ("x" * (MAX_NAME_LENGTH + 1), "has at most 256 characters, and 'xxxx.* has 257"),
    ],
)
def test_what_is_no_name_is_told_where_it_is_given(gear, ask, tool, said):
    if ask == "answer" and not isinstance(tool, str):
        return  # that is a function then, and not guarded
    with pytest.raises(OptionError, match=said):
        getattr(gear, ask)(*((tool,) if ask in {"guard", "permit"} else (tool, len, "")))


async def test_nor_is_it_the_name_of_an_awaited_one(gear):
    with pytest.raises(OptionError, match="A tool is a name, not None"):
        await gear.acall(None, len, "")


def search(query):
    return query


@pytest.mark.parametrize("ask", ["guard", "permit", "try_acquire", "is_open"])
def test_a_function_in_the_place_of_its_tools_name_is_told_so(gear, ask):
    said = r"A tool is given by its name, and search is a function\. Begin with the name, as in @gear.guard\(\"tool\"\)"
    with pytest.raises(OptionError, match=said):
        getattr(gear, ask)(search)


@pytest.mark.parametrize("ask", ["guard", "permit", "try_acquire", "is_open"])
def test_for_a_guarded_one_the_name_is_told(gear, ask):
    guarded = gear.guard("mcp:web:search")(search)
    with pytest.raises(
        OptionError, match=r'search is a function\. It is guarded as "mcp:web:search": that is the name'
    ):
        getattr(gear, ask)(guarded)


async def test_so_it_is_where_somebody_awaits(gear):
    with pytest.raises(OptionError, match="search is a function"):
        await gear.atry_acquire(search)


def test_whatever_is_text_and_short_enough_is_a_name(gear):
    for tool in ("x" * MAX_NAME_LENGTH, "süß 搜索", Tool.SEARCH, " "):
        assert gear.call(tool, len, "four") == gear.guard(tool)(len)("four") == 4
