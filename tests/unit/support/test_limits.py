"""A slow machine has more time: for a whole test, and wherever a test waits."""

import ast
import re
from pathlib import Path

import pytest

from tests.support import limits

TESTS = Path(limits.__file__).parents[1]
OF_TWO = {"eventually", "holds_within", "until", "wait_for", "wait_until"}
"""Functions whose last argument is how long they wait."""
OF_ONE = {"join", "result", "terminate", "timeout", "wait", "wait_for_exit"}
"""Functions whose only argument is that."""
BY_NAME = OF_TWO | OF_ONE | {"run", "wait_for_output", "wait_procs"}
KEYWORDS = {"timeout", "timeout_s", "limit_s"}
LONG_S = 2
"""Shorter ones are what a test is about."""
SUSPICIOUS = re.compile(rf"\b(?:{'|'.join(sorted(OF_TWO | OF_ONE))})\(.*\d\)|\b(?:{'|'.join(sorted(KEYWORDS))})=\d")
OWN = "# own limit"


def own_limits(source: str) -> list[int]:
    """Return the lines of calls that wait for a number of seconds that is written there."""
    if SUSPICIOUS.search(source) is None:  # to parse every file takes seconds
        return []
    lines, found = source.splitlines(), []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or "mark" in ast.unparse(call.func):
            continue
        name = ast.unparse(call.func).rpartition(".")[2]
        given = [each.value for each in call.keywords if each.arg in KEYWORDS] if name in BY_NAME else []
        if (name in OF_TWO and len(call.args) > 1) or (name in OF_ONE and len(call.args) == 1):
            given.append(call.args[-1])
        numbers = [
            each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int | float)
        ]
        whole = lines[call.lineno - 1 : call.end_lineno]
        if any(number > LONG_S for number in numbers) and not any(OWN in line for line in whole):
            found.append(call.lineno)
    return sorted(found)


def test_no_test_names_its_own_limit_of_waiting():
    files = [*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py"), *(TESTS / "support").glob("*.py")]
    found = [f"{file.relative_to(TESTS)}:{line}" for file in files for line in own_limits(file.read_text())]
    assert found == [], "use tests/support/limits.py"


def test_a_limit_is_found_wherever_it_stands():
    own = "thread.join(20)\nawait asyncio.wait_for(x, 5)\nsubprocess.run(a, timeout=60)"
    assert own_limits(own) == [1, 2, 3]
    assert own_limits("thread.join(ANSWER_S)\nasyncio.timeout(0.1)\nuntil(f, 9)  # own limit: why") == []


def test_a_test_without_a_limit_of_its_own_has_that_of_the_configuration_times_the_slowness(request, monkeypatch):
    monkeypatch.setattr(limits, "FACTOR", 2.0)
    before = request.node.get_closest_marker("timeout")
    limits.scale_time_limits([request.node])
    wanted = 2.0 * (float(request.config.getini("timeout")) if before is None else before.args[0])
    assert request.node.get_closest_marker("timeout").args[0] == wanted


@pytest.mark.timeout(7)
def test_the_limit_of_a_test_grows_once(request, monkeypatch):
    factor = limits.FACTOR
    assert request.node.get_closest_marker("timeout").args[0] == 7 * factor
    monkeypatch.setattr(limits, "FACTOR", 2.0)
    limits.scale_time_limits([request.node])
    assert request.node.get_closest_marker("timeout").args[0] == 14 * factor


def test_a_quiet_machine_changes_no_limit(request, monkeypatch):
    before = request.node.get_closest_marker("timeout")
    monkeypatch.setattr(limits, "FACTOR", 1.0)
    limits.scale_time_limits([request.node])
    assert request.node.get_closest_marker("timeout") is before
