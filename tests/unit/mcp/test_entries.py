"""One bad entry of a server's list doesn't hide the others."""

from __future__ import annotations

import json
import logging

import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.entries import Entries


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}} | more


def usable(listing, entries, method="tools/list", strict=True):
    found = listing.usable("small", method, map(rpc.raw, entries), strict=strict)
    return [json.loads(bytes(entry)) for _, entry in found]


GOOD = tool("good", title="Good", unknownField=[1])
BAD = [
    (tool("x" * 5_000), "its name has 5,000 characters"),
    (tool("x" * 248), "its name has 248 characters"),
    (tool("pay\u202edrowssap"), "its name has invisible characters"),
    (tool("a\x1b[2J"), "its name has invisible characters"),
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
    listing = Entries()
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
    assert usable(Entries(), [tool("x" * 999 + str(n)) for n in range(500)] + [GOOD]) == [GOOD]
    (record,) = caplog.records
    assert "So are 499 more." in record.getMessage()


@pytest.mark.parametrize(("entry", "why"), BAD, ids=[why for _, why in BAD])
def test_of_the_only_server_the_list_stays_as_it_is_but_for_names_that_a_circuit_can_not_have(entry, why):
    shown = usable(Entries(), [GOOD, entry], strict=False)
    assert shown == ([GOOD] if why.startswith("its name") else [GOOD, entry])


def test_the_longest_name_that_a_circuit_can_have_is_usable():
    longest = tool("x" * (256 - len("mcp:small:")))
    assert usable(Entries(), [longest]) == [longest]


@pytest.mark.parametrize(
    ("method", "good", "bad"),
    [
        ("prompts/list", {"name": "greet"}, {"title": "no name"}),
        ("resources/list", {"name": "a", "uri": "a://b"}, {"name": "a"}),
        ("resources/templates/list", {"name": "a", "uriTemplate": "a://{b}"}, {"name": "a", "uriTemplate": 1}),
    ],
)
def test_prompts_and_resources_are_sorted_out_too(method, good, bad):
    assert usable(Entries(), [bad, good, "text"], method) == [good]


def test_resources_may_have_the_same_name():
    both = [{"name": "a", "uri": "a://b"}, {"name": "a", "uri": "a://c"}]
    assert usable(Entries(), both, "resources/list") == both
