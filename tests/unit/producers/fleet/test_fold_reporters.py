"""Who counts as a reporter of a failure: the credential that a gateway names, else the process."""

from __future__ import annotations

import pytest

from switchgear_schemas import BreakerPolicy
from tests.support.fleet import COUNTING, OnePolicy, World

TOOL = "mcp:shop:search"
TWO = COUNTING.model_copy(update={"minimum_reporters": 2})
OF_FAMILY = BreakerPolicy(
    consecutive_failures=3, minimum_reporters=2, minimum_tools=1, counted_error_classes=frozenset({"transport"})
)


@pytest.fixture
def world():
    found = World(policies=OnePolicy(TWO, OF_FAMILY))
    found.say(tool_name=TOOL, emitter_id="globex@host", reporter="token b")
    return found


def fail(world, times, reporter, emitter_id="forged"):
    for number in range(times):
        world.say(
            "error", tool_name=TOOL, error_class="transport", emitter_id=f"{emitter_id}-{number}", reporter=reporter
        )
    world.run_all()


def test_one_credential_with_forged_processes_opens_no_circuit_that_wants_two_reporters(world):
    fail(world, 20, "token a")
    assert world.circuits == []
    fail(world, 1, "token b")
    for circuit in (TOOL, "mcp:shop|family"):
        assert [record.state for record in world.records(circuit)] == ["open"]


def test_processes_of_a_collector_are_reporters(world):
    fail(world, 3, None)
    assert [record.state for record in world.records(TOOL)] == ["open"]
