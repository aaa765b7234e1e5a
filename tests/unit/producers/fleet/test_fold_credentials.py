"""Different credentials that a tool rejects in a row open the fleet's circuit, if the processes share a salt."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy
from switchgear.fleet.log import result_of
from switchgear.testing import InMemoryFleet
from switchgear_schemas.policy import FLEET_DEFAULT
from switchgear_schemas.wire import Execution

ALONE = BreakerPolicy(consecutive_auth_failures=None)
"""The processes refuse nobody, so only the fleet decides."""


class UnauthorizedError(Exception):
    status_code = 401


def rejected(gear, *credentials):
    for credential in credentials:
        answer = gear.try_acquire("t", credential=credential)
        if answer:
            answer.failure(UnauthorizedError())


@pytest.fixture
def fleet():
    return InMemoryFleet()


def processes(fleet, **options):
    return [fleet.gear(f"process-{number}", local_policies=ALONE, **options) for number in range(3)]


def test_three_credentials_of_two_processes_open_the_fleets_circuit(fleet):
    one, other, _ = processes(fleet, parameters_key=b"k")
    rejected(one, "a", "b")
    rejected(other, "c")
    assert fleet.state("t") == "open"
    assert fleet.events("t")[-1]["credential"] == one._runtime.salted("c")


def test_a_call_that_the_tool_accepts_ends_the_row(fleet):
    one, other, third = processes(fleet, parameters_key=b"k")
    rejected(one, "a", "b")
    third.try_acquire("t").success()
    rejected(other, "c", "d")
    assert fleet.state("t") == "closed"


def test_one_token_in_three_processes_is_one_credential(fleet):
    for gear in processes(fleet, parameters_key=b"k"):
        rejected(gear, "a", "a")
    assert fleet.state("t") == "closed"


def test_without_a_common_salt_no_hash_is_sent_and_nothing_opens(fleet):
    for gear, name in zip(processes(fleet), "abc", strict=True):
        rejected(gear, name, name)
    assert fleet.state("t") == "closed"
    assert all("credential" not in event for event in fleet.events())


def test_credentials_of_one_process_open_no_circuit_that_others_call(fleet):
    one, other, _ = processes(fleet, parameters_key=b"k")
    other.try_acquire("t").success()
    rejected(one, "a", "b", "c", "d")
    assert fleet.state("t") == "closed"


def test_the_session_stands_for_the_credential(fleet):
    one, other, _ = processes(fleet, parameters_key=b"k")
    for gear, session_id in ((one, "a"), (one, "b"), (other, "c")):
        gear.try_acquire("t", session_id=session_id).failure(UnauthorizedError())
    assert fleet.state("t") == "open"


@pytest.mark.parametrize(
    ("status", "error_class", "credential"),
    [
        ("error", "auth", "k"),
        ("cancelled", "auth", ""),
        ("error", "tool", ""),
        ("success", None, ""),
        ("error", None, ""),
    ],
)
def test_only_a_rejected_credential_is_part_of_a_result(status, error_class, credential):
    event = Execution(tool_name="t", status=status, error_class=error_class, credential="k")
    assert result_of(event, FLEET_DEFAULT).credential == credential
