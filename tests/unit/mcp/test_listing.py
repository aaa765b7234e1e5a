"""One bad entry of a server's list doesn't hide the others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from switchgear_mcp.listing import Listing


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}} | more


def usable(listing, entries, method="tools/list", key="tools"):
    return asyncio.run(listing.sorted_out("small", method, {key: entries, "nextCursor": "c"}))[key]


GOOD = tool("good", title="Good", unknownField=[1])
BAD = [
    (tool("x" * 5_000), "its name has 5,000 characters"),
    (tool("x" * 248), "its name has 248 characters"),
    (tool(""), "it has no name"),
    (tool("pay\u202edrowssap"), "its name has invisible characters"),
    (tool("a\x1b[2J"), "its name has invisible characters"),
    (tool("good"), "its name is listed twice"),
    ({"name": "x"}, "wrong: inputSchema"),
    ({"inputSchema": {}}, "wrong: name"),
    (tool(7), "wrong: name"),
    (tool(None), "wrong: name"),
    (tool("x", description={"a": 1}), "wrong: description"),
    (tool("x", inputSchema="text"), "wrong: inputSchema"),
    ("text", "wrong: all of it"),
    (None, "wrong: all of it"),
    ([], "wrong: all of it"),
]


@pytest.mark.parametrize(("entry", "why"), BAD, ids=[why for _, why in BAD])
def test_a_bad_tool_is_left_out_with_one_warning_and_the_others_stay_as_they_are(entry, why, caplog):
    listing = Listing()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert usable(listing, [GOOD, entry, tool("other")]) == [GOOD, tool("other")]
    (record,) = caplog.records
    message = record.getMessage()
    assert "of the server small is left out: " in message
    assert why in message
    assert len(message) < 300
    assert message.isprintable()


def test_many_bad_tools_are_one_warning(caplog):
    assert usable(Listing(), [tool("x" * 999 + str(n)) for n in range(500)] + [GOOD]) == [GOOD]
    (record,) = caplog.records
    assert "So are 499 more." in record.getMessage()


@pytest.mark.parametrize("entries", [None, {}, "abc", 7])
def test_a_list_that_is_none_is_empty(entries):
    assert usable(Listing(), entries) == []


def test_the_longest_name_that_a_circuit_can_have_is_usable():
    longest = tool("x" * (256 - len("mcp:small:")))
    assert usable(Listing(), [longest]) == [longest]


@pytest.mark.parametrize(
    ("method", "key", "good", "bad"),
    [
        ("prompts/list", "prompts", {"name": "greet"}, {"title": "no name"}),
        ("resources/list", "resources", {"name": "a", "uri": "a://b"}, {"name": "a"}),
        (
            "resources/list",
            "resources",
            {"name": "a", "uri": "a://b", "size": 1},
            {"name": "a", "uri": "a://c", "size": "many"},
        ),
        (
            "resources/templates/list",
            "resourceTemplates",
            {"name": "a", "uriTemplate": "a://{b}"},
            {"name": "a", "uriTemplate": 1},
        ),
    ],
)
def test_prompts_and_resources_are_sorted_out_too(method, key, good, bad):
    assert usable(Listing(), [bad, good, "text"], method, key) == [good]


def test_resources_may_have_the_same_name():
    both = [{"name": "a", "uri": "a://b"}, {"name": "a", "uri": "a://c"}]
    assert usable(Listing(), both, "resources/list", "resources") == both


def test_answers_to_other_requests_stay_as_they_are():
    result = {"tools": [7], "content": []}
    assert asyncio.run(Listing().sorted_out("small", "tools/call", result)) is result


async def test_a_list_of_very_many_entries_lets_others_have_their_turn():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.ensure_future(other())
    entries = [tool(f"t{number}") for number in range(2_000)]
    assert (await Listing().sorted_out("small", "tools/list", {"tools": entries}))["tools"] == entries
    task.cancel()
    assert turns >= 19
