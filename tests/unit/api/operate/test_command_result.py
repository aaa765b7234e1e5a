"""What became of a command, for people and programs; and which record shows one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from switchgear_api.operate.command_result import CommandResult, shows
from switchgear_schemas import BreakerPolicy, Cause, Circuit, Command
from tests.support.table import table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _command(verb: str = "force_open", **fields: object) -> Command:
    return Command.from_dict({"tool_name": "search", "verb": verb, "actor": "ada", "reason": "drill", **fields})


def _circuit(state: str = "forced_open", rule: str = "command", **fields: object) -> Circuit:
    cause = {"rule": rule, "actor": "ada", "reason": "drill"}
    given = {"circuit_id": "search", "tool_name": "search", "state": state, "version": 4, "generation": 2}
    return Circuit.from_dict({**given, "changed_at": NOON, "cause": cause, **fields})


@table(
    ("verb", "state", "rule", "seen"),
    [
        ("force_open", "forced_open", "command", True),
        ("force_open", "open", "command", True),
        ("force_open", "closed", "command", False),
        ("close", "closed", "command", True),
        ("disable", "metrics_only", "command", False),
        ("auto", "closed", "command", True),
        ("force_open", "forced_open", "cusum", False),
    ],
)
def test_a_record_shows_the_command_that_it_came_of(verb, state, rule, seen):
    assert shows(_circuit(state, rule), _command(verb)) is seen


def test_a_record_of_another_actor_or_reason_shows_another_command():
    assert not shows(_circuit(), _command(actor="bob"))
    assert not shows(_circuit(), _command(reason="war"))
    assert not shows(_circuit(cause=None), _command())
    assert shows(_circuit(cause=Cause(rule="command", actor="ada")), _command(reason=""))


def test_a_policy_is_shown_by_a_record_that_says_so():
    command = _command("set_policy", policy=BreakerPolicy(failure_count=1))
    assert shows(_circuit("closed", "set_policy"), command)
    assert not shows(_circuit("closed", "command"), command)


@table(
    ("given", "sentence", "done"),
    [
        (CommandResult(_command(), "applied", _circuit()), "search: forced open, version 4, by ada: drill.", True),
        (
            CommandResult(_command(), "applied", _circuit("open", open_until=NOON)),
            "search: open until 2026-01-01 12:00:00 UTC, version 4, by ada: drill.",
            True,
        ),
        (
            CommandResult(_command("disable"), "applied", _circuit("disabled", stands_until=NOON)),
            "search: disabled until 2026-01-01 12:00:00 UTC, version 4, by ada: drill.",
            True,
        ),
        (CommandResult(_command(), "unchanged", _circuit()), "search: forced open already; nothing changed.", True),
        (CommandResult(_command("close"), "unchanged"), "search: closed already; nothing changed.", True),
        (
            CommandResult(
                _command("auto"),
                "unchanged",
                _circuit(
                    "open",
                    open_until=NOON,
                    cause={"rule": "consecutive_failures", "value": 5, "threshold": 5, "sample": 5},
                ),
            ),
            "search: open until 2026-01-01 12:00:00 UTC already: 5 calls in a row failed (the limit is 5); nothing changed.",
            True,
        ),
        (CommandResult(_command(), "sent"), "search: sent, not waited for.", True),
        (
            CommandResult(_command(), "refused", reason="the worker refused it: x."),
            "search: the worker refused it: x.",
            False,
        ),
        (CommandResult(_command(), "unconfirmed", reason="not confirmed."), "search: not confirmed.", False),
        (
            CommandResult(
                _command("set_policy", policy=BreakerPolicy(failure_count=1)),
                "applied",
                reason="by the owners of all 4 partitions",
            ),
            "search: the policy is set (by the owners of all 4 partitions).",
            True,
        ),
        (
            CommandResult(_command("set_policy", policy=BreakerPolicy(failure_count=1)), "unchanged", _circuit()),
            "search: these values are set already; nothing changed.",
            True,
        ),
        (
            CommandResult(_command("set_policy", policy=BreakerPolicy()), "applied", _circuit()),
            "search: what was set is taken back.",
            True,
        ),
        (
            CommandResult(_command("set_policy", policy=BreakerPolicy()), "unchanged"),
            "search: nothing was set; nothing changed.",
            True,
        ),
        (
            CommandResult(_command(), "unchanged", reason="its newest record was not read in time"),
            "search: nothing changed (its newest record was not read in time).",
            True,
        ),
        (CommandResult(_command(circuit_id="search|user=u"), "sent"), "search|user=u: sent, not waited for.", True),
    ],
)
def test_every_outcome_is_one_sentence(given, sentence, done):
    assert given.sentence() == sentence
    assert given.done is done


def test_a_program_reads_the_whole_circuit():
    document = json.loads(json.dumps(CommandResult(_command(), "applied", _circuit()).document()))
    assert document["outcome"] == "applied"
    assert document["circuit"]["version"] == 4
    assert CommandResult(_command(), "sent").document()["circuit"] is None
