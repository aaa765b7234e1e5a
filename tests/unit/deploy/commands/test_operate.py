"""The operators' command lines: what they are made into, and what is refused before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.main import WRONG_USAGE, run
from switchgear_cli.operate import give as give_module
from switchgear_cli.operate.actor import this_person
from switchgear_cli.operate.given import Given


@pytest.fixture
def told(monkeypatch):
    """The commands that would have been sent, with how long they would be waited for."""
    found = []

    async def give(settings, command, *, wait_s):
        found.append((settings, command, wait_s))
        return Given(command, "sent")

    monkeypatch.setattr(give_module, "give", give)
    return found


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("open", "force_open"),
        ("close", "close"),
        ("reset", "reset"),
        ("disable", "disable"),
        ("metrics-only", "metrics_only"),
        ("auto", "auto"),
    ],
)
def test_every_verb_is_a_command_with_reason_and_actor(told, name, verb):
    assert run([name, "mcp:x", "--reason", "drill", "--actor", "ada"]) == 0
    (_, command, wait_s) = told[0]
    assert (command.tool_name, command.verb, command.reason, command.actor) == ("mcp:x", verb, "drill", "ada")
    assert (wait_s, command.until, command.circuit_id) == (10.0, None, None)


def test_the_actor_is_the_person_at_this_machine(told):
    run(["open", "x"])
    assert told[0][1].actor == this_person()
    assert "@" in this_person()


def test_for_is_an_instant_from_now(told):
    before = datetime.now(UTC)
    run(["open", "x", "--for", "10m", "--timeout", "2.5"])
    command = told[0][1]
    assert timedelta(minutes=10) <= command.until - before < timedelta(minutes=11)
    assert told[0][2] == 2.5


@pytest.mark.parametrize(
    ("options", "circuit_id"),
    [
        (["--user", "u1"], "x|user=u1"),
        (["--session", "s1"], "x|session=s1"),
        (["--circuit", "x|user=u2"], "x|user=u2"),
    ],
)
def test_one_circuit_alone_is_named_by_user_session_or_id(told, options, circuit_id):
    run(["close", "x", *options])
    assert told[0][1].circuit_id == circuit_id


def test_who_does_not_wait_is_told_that_it_was_sent(told, capsys):
    assert run(["open", "x", "--no-wait"]) == 0
    assert told[0][2] is None
    assert capsys.readouterr().out == "x: sent, not waited for.\n"


def test_a_policy_carries_what_was_named_and_clear_carries_nothing(told):
    run(["policy", "set", "mcp:*", "minimum_reporters=3", "--reason", "calm"])
    run(["policy", "clear", "mcp:*"])
    first, second = (command for _, command, _ in told)
    assert first.policy.model_dump(exclude_unset=True) == {"minimum_reporters": 3}
    assert second.policy.model_fields_set == set()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["open", "x", "--for", "soon"], "'soon' is no duration"),
        (["close", "x", "--for", "3m"], "--for"),
        (["open"], "requires an argument"),
        (["open", ""], "tool_name: String should have at least 1 character"),
        (["open", "x", "--timeout", "0"], "timeout"),
        (["open", "x", "--user", "a", "--circuit", "b"], "name one circuit each"),
        (["policy", "set", "x", "minimum_reporter=3"], "Did you mean minimum_reporters?"),
        (["policy", "set", "x"], "No value is named"),
    ],
)
def test_wrong_usage_sends_nothing_and_says_why(told, capsys, line, message):
    assert run(line) == WRONG_USAGE
    assert message in capsys.readouterr().err
    assert told == []
