from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import get_args

from switchgear.follower.view import decode_view
from switchgear_api.console.figures import Figures, Opening, ToolFigures
from switchgear_api.console.now import advised, assemble, openings
from switchgear_api.console.records import circuit_part
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.enums import CircuitState
from tests.support.table import table

COUNTED = (ToolFigures(), ToolFigures(calls=9, errors=9), ToolFigures(calls=9, caller_errors=9))
NOW = datetime(2026, 11, 26, 2, 0, tzinfo=UTC)


def circuit(name, state="closed", scope="tool", **fields):
    given = {
        "circuit_id": name,
        "tool_name": name,
        "state": state,
        "scope": scope,
        "version": 1,
        "generation": 1,
        "changed_at": NOW,
    }
    return decode_view(Circuit(**given | fields).to_bytes())


def figures(**tools):
    return Figures(NOW, 60, tools, {}, {}, {}, {}, None)


def test_broken_tools_come_first_then_those_with_most_errors_then_most_calls():
    circuits = {each.circuit_id: each for each in (circuit("quiet_open", "open"), circuit("closed"))}
    found = assemble(
        circuits,
        figures(
            a=ToolFigures(calls=9),
            b=ToolFigures(calls=5, errors=3),
            c=ToolFigures(calls=50, errors=1),
            closed=ToolFigures(calls=10),
        ),
        {},
        family_pattern="mcp:*:*",
    )
    assert [each["tool"] for each in found["tools"]] == ["quiet_open", "b", "c", "closed", "a"]


def test_error_rate_of_the_fleet_leaves_out_the_same_calls_of_all_its_tools():
    some = ToolFigures(calls=20, errors=5, caller_errors=8, cancelled=2)
    found = assemble({}, figures(a=some, b=ToolFigures(calls=11, cancelled=1)), {}, family_pattern="mcp:*:*")
    assert (found["fleet"]["calls"], found["fleet"]["errors"], found["fleet"]["error_rate"]) == (31, 5, 0.25)
    idle = assemble({}, figures(a=ToolFigures(calls=3, cancelled=3)), {}, family_pattern="mcp:*:*")
    assert idle["fleet"]["error_rate"] == 0


def test_outage_began_at_the_stored_opening_and_not_at_the_last_failed_probe():
    opened = NOW - timedelta(minutes=9)
    circuits = [
        circuit("a", "open"),
        circuit("b", "half_open"),
        circuit("c", "metrics_only"),
        circuit("d"),
        circuit("e|user=1", "open", "user"),
    ]
    stored = Opening(opened, "5 of the last 9 calls failed.")
    assert openings(circuits, {"a": stored}) == {"a": stored, "b": Opening(NOW)}
    assert openings([circuit("a", "open")], {"a": Opening(NOW + timedelta(minutes=1))}) == {"a": Opening(NOW)}


def test_reader_without_the_right_to_see_circuits_sees_unknown_states_and_no_family():
    found = assemble(None, figures(**{"mcp:x:y": ToolFigures(calls=1)}), {}, family_pattern="mcp:*:*")
    assert [(each["state"], each["family"]) for each in found["tools"]] == [("unknown", "mcp:x")]
    assert found["families"] == []


def test_tool_says_when_it_was_last_called_and_one_without_calls_does_not():
    circuits = {"quiet": circuit("quiet", "open")}
    found = assemble(circuits, figures(a=ToolFigures(calls=1, last_at=NOW)), {}, family_pattern="mcp:*:*")
    assert {row["tool"]: row["last_call_at"] for row in found["tools"]} == {
        "a": "2026-11-26T02:00:00.000Z",
        "quiet": None,
    }


@table(("state", "counted"), product(get_args(CircuitState), COUNTED))
def test_row_of_a_page_and_record_of_the_stream_have_the_same_advice(state, counted):
    record = circuit("a", state)
    found = assemble({"a": record}, figures(a=counted), {}, family_pattern="mcp:*:*")
    row, streamed = found["tools"][0], advised(circuit_part(record), counted)
    assert {name: row[name] for name in streamed} == streamed
