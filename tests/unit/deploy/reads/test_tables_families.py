"""A family that refuses calls is one row, in place of its tools."""

from __future__ import annotations

from switchgear_cli.reads import tables
from tests.unit.deploy.reads.test_tables import NOW, both, circuit, local_circuit, text_of


def shown(*circuits) -> str:
    return text_of(tables.circuits({"circuits": list(circuits), "checked_at": NOW}), width=160)


def family(state="open", **fields):
    return circuit("mcp:github|family", state, tool_name="mcp:github", family="mcp:github", scope="family", **fields)


def tools(count=40, state="open"):
    names = [f"mcp:github:tool{number}" for number in range(count)]
    return [circuit(name, state, family="mcp:github", scope="tool") for name in names]


def test_a_dead_server_is_one_row_that_says_how_many_of_its_tools_are_open_themselves():
    found = shown(family(), *tools(30), *tools(10, "closed"), circuit("search", family=None, scope="tool"))
    assert found.count("mcp:github") == 1
    assert "mcp:github (all its tools)" in found
    assert "refuses its tools (30 open themselves)" in " ".join(found.split())
    assert "search" in found


def test_a_dead_server_whose_tools_have_no_circuits_refuses_them():
    assert "refuses its tools" in shown(family("forced_open"))


def test_the_tools_of_a_server_that_answers_have_their_own_rows():
    assert shown(family("closed"), *tools(3)).count("mcp:github:tool") == 3


def test_a_server_that_only_processes_have_opened_is_named_with_its_tools():
    local = [local_circuit(tool_name="mcp:github", scope="family")]
    found = text_of(tables.circuits(both(local=local)), width=160)
    assert "mcp:github (all its tools)" in found
