"""The bounds of the decision about a list: whatever the circuits do, it changes seldom, and it is never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear import BreakerPolicy, OptionError, Switchgear
from switchgear.testing import InMemoryFleet
from switchgear.tool_list import MOST_LISTS, Condition, Session, ToolLists, settle, step
from tests.support.clock import Clock

FLOOR_S = 600.0
conditions = st.builds(Condition, st.booleans(), st.booleans(), st.sampled_from(["", "due"]))
histories = st.lists(st.tuples(st.floats(0.1, 900), conditions), max_size=60)


@pytest.mark.slow
@given(histories)
def test_a_hiding_list_keeps_a_tool_in_its_place_for_the_floor(history):
    entry, now, changed = None, 0.0, -FLOOR_S
    for waited, seen in history:
        now += waited
        before, entry = entry, step(entry, seen, now, "hide", FLOOR_S)
        if before is not None and before.hidden != entry.hidden:
            assert now - changed >= FLOOR_S
            assert entry.hidden == seen.down
            changed = now


@given(histories)
def test_a_hiding_list_asks_for_a_probe_at_most_once_in_the_floor_and_never_for_an_offered_tool(history):
    entry, now, asked = None, 0.0, -FLOOR_S
    for waited, seen in history:
        now += waited
        entry = step(entry, seen, now, "hide", FLOOR_S)
        if entry.asks:
            assert now - asked >= FLOOR_S
            assert not entry.offered
            asked = now


@given(histories, st.sampled_from(["stable", "new_sessions"]))
def test_every_other_list_never_changes(history, mode):
    entry, offered = None, set()
    for _, seen in history:
        entry = step(entry, seen, 0.0, mode, FLOOR_S)
        offered.add(entry.offered)
    assert len(offered) <= 1


@given(st.lists(st.tuples(st.floats(0, 100), st.frozensets(st.sampled_from("abc"))), max_size=40))
def test_a_text_changes_at_most_once_a_minute_and_only_to_another_set(history):
    said, now = None, 0.0
    for waited, down in history:
        now += waited
        before, said = said, settle(said, down, None, now)
        if before is not None and before.down != said.down:
            assert said.down == down
            assert now - before.since >= 60


@pytest.mark.slow
def test_sessions_are_bounded_and_the_one_used_longest_ago_is_forgotten_first():
    lists, out = ToolLists("new_sessions", FLOOR_S, Clock(0.0)), [Condition(down=True, refuses=True)]

    def offered(session):
        return lists.offered(["search"], Session(session), lambda _tool, _own: out[0], lambda _tool, _own: False)

    assert list(offered("first")) == [False]
    assert list(offered("second")) == [False]
    out[0] = Condition()
    for number in range(MOST_LISTS - 1):
        offered(str(number))
        assert list(offered("first")) == [False]
    assert list(offered("second")) == [True]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"tool_list": "never"}, "tool_list must be one of stable, new_sessions, hide, not 'never'"),
        ({"hide_after_s": -1}, "hide_after_s must be a number of seconds"),
    ],
)
def test_impossible_options_are_named(option, message):
    with pytest.raises(OptionError, match=message):
        Switchgear.local(**option)


def test_settings_of_the_environment_choose_the_list(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_LOCAL", "true")
    monkeypatch.setenv("SWITCHGEAR_TOOL_LIST", "hide")
    monkeypatch.setenv("SWITCHGEAR_HIDE_AFTER_S", "0")
    gear = Switchgear.from_env(local_policies=BreakerPolicy(consecutive_failures=1))
    gear.try_acquire("search").failure(ConnectionError("down"))
    assert gear.available(["search", "mail"]) == ["mail"]


def test_changes_of_a_list_are_said_once_with_the_next_call():
    fleet = InMemoryFleet()
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    gear.try_acquire("other").success()
    assert gear.available(["search", "other"]) == ["search", "other"]
    fleet.open_circuit("search")
    assert [gear.available(["search", "other"]) for _ in range(3)] == [["other"]] * 3
    for _ in range(2):
        gear.try_acquire("other").success()
    said = [(event.get("metadata") or {}).get("tool_list_changes") for event in fleet.events("other")]
    assert said == [None, 1, None]
    assert gear.status().tool_list_changes == 1
