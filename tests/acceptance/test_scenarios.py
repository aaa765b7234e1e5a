"""Behaviour that other breakers' own test suites hold, step by step, against ours.

The scenarios are read from the file that ``SWITCHGEAR_SCENARIOS`` names, else from the shared folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.group_player import GroupPlayer
from tests.acceptance.local_player import LocalPlayer
from tests.acceptance.shared_player import SharedPlayer
from tests.support.shared import REPOSITORY, shared_folder

PLAYERS = {"local": LocalPlayer, "shared": SharedPlayer, "group": GroupPlayer}
DECIDED_OTHERWISE: dict[str, str] = {}
"""Id of a scenario to the reason why this breaker does otherwise, on purpose."""


def scenarios() -> list[dict[str, Any]]:
    named = os.environ.get("SWITCHGEAR_SCENARIOS")
    path = Path(named) if named else REPOSITORY.parent / "shared" / "acceptance" / "scenarios.json"
    if not named and not path.exists():
        return []
    loaded: list[dict[str, Any]] = json.loads(path.read_text())["scenarios"]
    return loaded


SCENARIOS = scenarios()


@pytest.mark.shared
def test_the_scenarios_were_found() -> None:
    if not SCENARIOS:
        shared_folder()
    assert SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one["id"] for one in SCENARIOS])
def test_scenario(scenario: dict[str, Any]) -> None:
    if scenario["id"] in DECIDED_OTHERWISE:
        pytest.xfail(DECIDED_OTHERWISE[scenario["id"]])
    player = PLAYERS[scenario["kind"]](scenario["config"])
    for number, step in enumerate(scenario["steps"]):
        try:
            player.play(step)
        except AssertionError as error:
            raise AssertionError(f"{scenario['title']}: step {number} {step}: {error}") from error
