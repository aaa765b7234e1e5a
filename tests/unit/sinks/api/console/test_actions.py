"""What undoes a command."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_schemas.command import Command
from switchgear_sinks.api.console.actions import _still, undo_of_command
from switchgear_sinks.api.console.records import no_circuit

CLOSED = no_circuit("mail", None)
COMMAND = Command(tool_name="mail", verb="force_open", actor="ann", reason="x")
SOON = "2100-01-01T00:00:00.000Z"
OVERRIDE = {"command": "force_open", "actor": "ann", "reason": "x", "expires_at": None}


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_undo_of_a_command_to_a_closed_circuit_ends_the_command(verb):
    assert undo_of_command(verb, CLOSED, COMMAND) == [{"tool_name": "mail", "circuit_id": None, "verb": "auto"}]


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_undo_of_a_command_to_a_circuit_that_a_rule_opened_opens_it_until_its_next_probe(verb):
    before = CLOSED | {"state": "open", "next_probe_at": SOON}
    (found,) = undo_of_command(verb, before, COMMAND)
    assert (found["verb"], found["until"]) == ("force_open", SOON)


def test_undo_for_a_circuit_that_was_half_open_lets_probes_decide_at_once():
    commands = undo_of_command("disable", CLOSED | {"state": "half_open"}, COMMAND)
    (found,) = _still(commands)
    until = datetime.fromisoformat(found["until"])
    assert (found["verb"], timedelta(0) < until - datetime.now(UTC) < timedelta(seconds=2)) == ("force_open", True)


def test_undo_brings_back_the_command_from_before_while_it_lasts():
    before = CLOSED | {"state": "metrics_only", "override": OVERRIDE, "expires_at": SOON}
    commands = undo_of_command("force_open", before, COMMAND)
    assert [each["verb"] for each in _still(commands)] == ["metrics_only"]
    past = undo_of_command("force_open", before | {"expires_at": "2026-01-01T00:00:00.000Z"}, COMMAND)
    assert [each["verb"] for each in _still(past)] == ["auto"]


@pytest.mark.parametrize("verb", ["close", "reset"])
def test_removed_evidence_cannot_be_brought_back(verb):
    assert undo_of_command(verb, CLOSED | {"state": "open", "next_probe_at": SOON}, COMMAND) is None
