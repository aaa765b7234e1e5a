"""A message about an outage keeps its place in a history that the framework sends anew with each request."""

from __future__ import annotations

import pytest

from switchgear.integrations.tool_calls import ToolCalls
from switchgear.testing import InMemoryFleet

TOOLS = ["search", "mail"]
SAID = "[tool status] These tools are unavailable: search. The answer to a call of one says when to try it again."
AGAIN = "[tool status] These tools may be called again: search."


@pytest.fixture
def fleet():
    return InMemoryFleet()


@pytest.fixture
def calls(fleet):
    return ToolCalls(fleet.gear())


def seen(calls, *history, **options):
    tools, found = calls.turn_in(TOOLS, list(history), str, **{"session_id": "s", **options})
    assert tools == TOOLS
    return found


def test_a_history_is_as_it_was_while_all_tools_work(calls):
    assert seen(calls, "hello") == ["hello"]


def test_a_message_stays_where_it_was_first_put_and_the_end_of_the_outage_follows(fleet, calls):
    seen(calls, "hello")
    fleet.open_circuit("search")
    fleet.advance(61)
    assert seen(calls, "hello", "call", "result") == ["hello", "call", "result", SAID]
    assert seen(calls, "hello", "call", "result", "more") == ["hello", "call", "result", SAID, "more"]
    fleet.close_circuit("search")
    fleet.advance(61)
    assert seen(calls, "hello", "call", "result", "more", "and more") == [
        *("hello", "call", "result", SAID, "more", "and more", AGAIN),
    ]
    assert seen(calls, "hello", "call", "result", "more", "and more", "end") == [
        *("hello", "call", "result", SAID, "more", "and more", AGAIN, "end"),
    ]


def test_a_history_that_was_shortened_is_told_again_at_its_end(fleet, calls):
    fleet.open_circuit("search")
    assert seen(calls, "hello", "call", "result") == ["hello", "call", "result", SAID]
    assert seen(calls, "a summary") == ["a summary", SAID]
    assert seen(calls, "a summary", "more") == ["a summary", SAID, "more"]


def test_a_message_never_comes_between_other_messages_than_before(fleet, calls):
    fleet.open_circuit("search")
    seen(calls, "hello", "call", "result")
    assert seen(calls, "hello", "call", "another call", "result") == ["hello", "call", "another call", "result", SAID]


def test_conversations_and_agents_of_one_session_have_messages_of_their_own(fleet, calls):
    fleet.open_circuit("search")
    other = ToolCalls(calls.gear)
    assert seen(calls, "hello") == seen(other, "hello") == ["hello", SAID]
    assert seen(calls, "hi", conversation="s of another agent") == ["hi", SAID]
    assert seen(calls, "hello", "more") == ["hello", SAID, "more"]


def test_without_a_name_a_conversation_has_no_messages(fleet, calls):
    fleet.open_circuit("search")
    assert seen(calls, "hello", session_id=None) == ["hello"]
    assert seen(calls, "hello", session_id=None, conversation="c") == ["hello", SAID]
    assert seen(calls) == []
    assert seen(calls, "hello") == ["hello", SAID], "an empty history has no end to put it at"


def test_messages_that_are_new_objects_each_time_are_told_apart_by_an_anchor(fleet, calls):
    class Message:
        def __init__(self, text):
            self.text = text

    def texts(*history):
        _, found = calls.turn_in(
            TOOLS, [Message(each) for each in history], Message, session_id="s", anchor=lambda each: each.text
        )
        return [each.text for each in found]

    fleet.open_circuit("search")
    assert texts("hello") == ["hello", SAID]
    assert texts("hello", "more") == ["hello", SAID, "more"]


def test_a_framework_that_keeps_what_it_was_given_gets_each_message_once(fleet, calls):
    fleet.open_circuit("search")
    kept = seen(calls, "hello")
    assert kept == ["hello", SAID]
    assert seen(calls, *kept, "more") == ["hello", SAID, "more"]
    fleet.close_circuit("search")
    fleet.advance(61)
    assert seen(calls, *kept, "more", "and more") == ["hello", SAID, "more", "and more", AGAIN]
