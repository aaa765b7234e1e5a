"""A tool has a name, and what can't be one is told where it is given."""

from __future__ import annotations

import enum

import pytest

from switchgear import OptionError
from switchgear_schemas.words import MAX_NAME_LENGTH


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


def test_a_guard_without_a_name_says_what_is_missing(gear):
    with pytest.raises(OptionError, match=r"A guard begins with the tool's name\. @gear.guard\(\"tool\"\)"):

        @gear.guard
        def search(query):
            return query


def test_whatever_is_text_and_short_enough_is_a_name(gear):
    for tool in ("x" * MAX_NAME_LENGTH, "süß 搜索", Tool.SEARCH, " "):
        assert gear.call(tool, len, "four") == gear.guard(tool)(len)("four") == 4
