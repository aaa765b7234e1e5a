"""Tools that reject the credentials of a session of Claude Code. The session stands for them."""

from __future__ import annotations

import pytest

from switchgear.classify.tool_failure import META_KEY
from tests.unit.deploy.hook.conftest import TOOL, Session

DENIED = {
    "isError": True,
    "content": [{"type": "text", "text": "the token has expired"}],
    "_meta": {META_KEY: {"class": "governance", "code": "auth_required"}},
}


def denied(session, *tools):
    """Return whether the calls were made; the tools reject the session's credentials."""
    return [session.call(tool, tool_response=DENIED) is None for tool in tools]


def callers(state):
    return state._database.execute("SELECT count(*) FROM callers").fetchone()[0]


@pytest.mark.slow
def test_of_two_hundred_calls_with_an_expired_token_three_are_made(session):
    assert denied(session, *[TOOL] * 200).count(True) == 3


def test_the_model_is_told_to_sign_in_again_and_another_session_goes_on(session, another):
    denied(session, *[TOOL] * 3)
    assert session.before() == (
        f"Your credentials for the tool {TOOL} were rejected 3 times in a row, so it was not called."
        " Sign in again, or use another tool."
    )
    assert another.call() is None
    assert session.before() is not None


def test_a_success_in_between_starts_afresh_and_leaves_nothing_in_the_file(session, state):
    denied(session, *[TOOL] * 2)
    assert callers(state) == 2
    assert session.call() is None
    assert callers(state) == 0
    assert denied(session, *[TOOL] * 3) == [True] * 3


def test_a_probe_that_works_gives_the_tool_back_although_a_person_took_a_minute(session, state):
    denied(session, *[TOOL] * 4)
    session.now += 60
    assert session.before(call="probe") is None
    assert session.before(call="other") is not None
    session.now += 70
    session.after(TOOL, "probe")
    assert session.call() is None
    assert callers(state) == 0


def test_a_probe_that_is_rejected_doubles_the_wait(session):
    denied(session, *[TOOL] * 4)
    session.now += 60
    assert denied(session, TOOL, TOOL) == [True, False]
    session.now += 119
    assert session.before() is not None
    session.now += 1
    assert session.call() is None


def test_rejections_of_two_tools_refuse_the_server_and_its_probe_frees_all_of_them(session, state):
    assert denied(session, *(f"mcp__weather__{each}" for each in "aaab")) == [True] * 4
    reason = session.before("mcp__weather__never_called")
    assert reason.startswith("Your credentials for the server mcp:weather of the tool mcp__weather__never_called were")
    assert session.before("mcp__other__tool") is None
    session.now += 60
    assert session.call("mcp__weather__never_called") is None
    assert session.call("mcp__weather__a") is None
    assert callers(state) == 0


def test_a_tool_that_the_person_may_not_use_stays_refused_while_others_of_its_server_work(session):
    denied(session, *["mcp__weather__admin"] * 3)
    for _ in range(5):
        assert session.call("mcp__weather__read") is None
        assert session.before("mcp__weather__admin") is not None


def test_one_session_does_not_open_the_circuit_and_three_in_a_row_do(state):
    sessions = [Session(state, f"s-{number}") for number in range(3)]
    for each in sessions[:2]:
        denied(each, *[TOOL] * 5)
    assert Session(state, "fresh").before() is None
    denied(sessions[2], TOOL)
    assert "circuit open" in Session(state, "fresh").before()


def test_the_end_of_a_session_forgets_its_rejected_calls(session, state):
    denied(session, *[TOOL] * 4)
    session.send("SessionEnd", reason="other")
    assert callers(state) == 0
    assert session.before() is None


@pytest.mark.parametrize("damage", [b"", b"\x90", b"text", b"\x93\xa1x\x03\x03"])
def test_rejected_calls_that_cannot_be_read_are_forgotten(session, state, damage):
    denied(session, *[TOOL] * 4)
    state._database.execute("UPDATE callers SET run = ? WHERE tool LIKE '%|auth'", (damage,))
    assert session.call() is None
