"""Operators command the circuits of families with ``--family``."""

from __future__ import annotations

import pytest

from switchgear_cli.main import WRONG_USAGE, run
from tests.unit.deploy.operate.test_targets import Fleet, commands_sent, fleet, terminal

pytestmark = pytest.mark.slow

__all__ = ["commands_sent", "fleet", "terminal"]
SERVER, CIRCUIT = "mcp:github", "mcp:github|family"


@pytest.fixture(autouse=True)
def known(fleet: Fleet) -> None:
    """The workers know two families."""
    fleet.add(CIRCUIT)
    fleet.add("mcp:gitlab|family")


@pytest.mark.parametrize("verb", ["open", "close", "reset", "disable", "metrics-only", "auto"])
def test_every_verb_commands_the_circuit_of_a_family(commands_sent, verb):
    assert run([verb, SERVER, "--family"]) == 0
    ((_, command, _),) = commands_sent
    assert (command.tool_name, command.circuit_id) == (SERVER, CIRCUIT)


def test_a_glob_stands_for_the_known_families_and_not_for_tools(fleet, terminal, capsys):
    terminal("y")
    assert run(["open", "mcp:git*", "--family"]) == 0
    assert [command.circuit_id for _, command, _ in fleet.sent] == [CIRCUIT, "mcp:gitlab|family"]
    assert "mcp:git* matches 2 families" in capsys.readouterr().err


@pytest.mark.slow
def test_a_family_that_no_worker_knows_is_refused_with_the_nearest_one_and_sent_with_create(fleet, capsys):
    assert run(["open", "mcp:githb", "--family"]) == WRONG_USAGE
    assert "did you mean mcp:github|family" in capsys.readouterr().err
    assert fleet.sent == []
    assert run(["open", "mcp:githb", "--family", "--create"]) == 0
    assert fleet.sent[0][1].circuit_id == "mcp:githb|family"


def test_a_family_has_no_circuits_of_users(commands_sent, capsys):
    assert run(["open", SERVER, "--family", "--user", "ada"]) == WRONG_USAGE
    assert "A family has one circuit." in capsys.readouterr().err
    assert commands_sent == []


@pytest.mark.slow
def test_sets_and_clears_the_policy_of_a_family(fleet):
    assert run(["policy", "set", SERVER, "minimum_tools=3", "--family"]) == 0
    command = fleet.sent[0][1]
    assert (command.circuit_id, command.policy.minimum_tools) == (CIRCUIT, 3)
    fleet.add(CIRCUIT, policy=b'{"minimum_tools":3}')
    run(["policy", "clear", SERVER, "--family"])
    assert fleet.sent[1][1].circuit_id == CIRCUIT


def test_nothing_that_is_set_for_a_tool_is_cleared_for_a_family_of_its_name(fleet, capsys):
    fleet.add(SERVER, policy=b'{"minimum_tools":3}')
    assert run(["policy", "clear", SERVER, "--family"]) != 0
    assert "Nothing is set for" in capsys.readouterr().err


def test_a_glob_sets_no_policy_of_families(fleet, capsys):
    assert run(["policy", "set", "mcp:*", "minimum_tools=3", "--family"]) == WRONG_USAGE
    assert "one family at a time" in capsys.readouterr().err
    assert fleet.sent == []
