"""Records are read by decoders that exist since their module was imported.

msgspec 0.22 describes a class at its first use. Two threads that do so at once crash the process: one reads the other's unfinished
description. Eight threads whose first act was ``Circuit.from_bytes`` did so in one process of ten.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import switchgear_schemas.circuit
import switchgear_schemas.command
from switchgear_schemas.wire_record import WireRecord, _decoders

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ("schemas", "stream", "producers", "sinks", "deploy")
IN_ONE_THREAD = {  # the body's class is given by a route, and only the event loop reads bodies
    "producers/switchgear_gateway/json_requests.py",
    "sinks/switchgear_api/parameters.py",
    # read once at a start
    "producers/switchgear_http/tokens.py",
    "deploy/switchgear_cli/up_record.py",
}
BUILT_IN = {"int", "float", "str", "bytes"}


def late_decoders(path: Path) -> Iterator[str]:
    """Yield the places where a class is described at the time of the call."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode":
            kinds = [ast.unparse(each.value) for each in node.keywords if each.arg == "type"]
            if any(kind not in BUILT_IN for kind in kinds):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.slow
def test_no_code_that_threads_share_describes_a_class_at_the_time_of_the_call():
    files = [
        path
        for folder in SOURCE
        for path in (ROOT / folder).rglob("*.py")
        if "node_modules" not in path.parts and str(path.relative_to(ROOT)) not in IN_ONE_THREAD
    ]
    assert len(files) > 400

    assert [place for path in files for place in late_decoders(path)] == []


def test_each_record_of_a_topic_has_its_decoder_since_its_import():
    records = set(WireRecord.__subclasses__())

    assert {switchgear_schemas.circuit.Circuit, switchgear_schemas.command.Command} <= records
    assert records == set(_decoders)
