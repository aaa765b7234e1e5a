"""The behaviour of other breakers, from their own test suites, compared with ours step by step.

The scenarios are read from the file that ``SWITCHGEAR_SCENARIOS`` names, else from the shared folder; and from
``more_scenarios.json`` beside this file in any case.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.group_player import GroupPlayer
from tests.acceptance.local_player import LocalPlayer
from tests.acceptance.session_player import SessionPlayer
from tests.acceptance.shared_player import SharedPlayer
from tests.support.shared import REPOSITORY, shared_folder

MORE = Path(__file__).with_name("more_scenarios.json")
PLAYERS = {"local": LocalPlayer, "shared": SharedPlayer, "group": GroupPlayer, "session": SessionPlayer}
DECIDED_OTHERWISE: dict[str, str] = {}
"""By scenario id, the reason why this breaker behaves differently on purpose."""


def scenarios() -> list[dict[str, Any]]:
    named = os.environ.get("SWITCHGEAR_SCENARIOS")
    path = Path(named) if named else REPOSITORY.parent / "shared" / "acceptance" / "scenarios.json"
    if not named and not path.exists():
        return []
    return read(path)


def read(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(path.read_text())["scenarios"]
    return loaded


SCENARIOS = scenarios()
OURS = read(MORE)


@pytest.mark.shared
def test_the_scenarios_were_found() -> None:
    if not SCENARIOS:
        shared_folder()
    assert SCENARIOS


def test_every_scenario_of_ours_has_an_id_of_its_own_and_says_where_it_is_from() -> None:
    assert len({one["id"] for one in OURS}) == len(OURS) >= 60
    assert all(one["source"] for one in OURS)


@pytest.mark.parametrize("scenario", SCENARIOS + OURS, ids=[one["id"] for one in SCENARIOS + OURS])
def test_every_step_of_a_scenario_has_the_expected_result(scenario: dict[str, Any]) -> None:
    if scenario["id"] in DECIDED_OTHERWISE:
        pytest.xfail(DECIDED_OTHERWISE[scenario["id"]])
    player = PLAYERS[scenario["kind"]](scenario["config"])
    for number, step in enumerate(scenario["steps"]):
        try:
            player.play(step)
        except AssertionError as error:
            raise AssertionError(f"{scenario['title']}: step {number} {step}: {error}") from error


def turned(step: dict[str, Any]) -> dict[str, Any] | None:
    """Return the step with one expectation inverted; None if it has no such expectation."""
    for key in ("permit", "granted"):
        if key in step:
            return step | {key: not step[key]}
    if "state" in step:
        return step | {"state": "closed" if step["state"] in {"open", "half_open"} else "open"}
    if "candidates" in step:
        return step | {"candidates": []}
    return None


@pytest.mark.parametrize("scenario", SCENARIOS + OURS, ids=[one["id"] for one in SCENARIOS + OURS])
def test_no_scenario_passes_with_a_wrong_expectation(scenario: dict[str, Any]) -> None:
    steps = scenario["steps"]
    wrong = [(place, changed) for place, step in enumerate(steps) if (changed := turned(step)) is not None]
    for place, changed in wrong:
        player = PLAYERS[scenario["kind"]](scenario["config"])
        for step in steps[:place]:
            player.play(step)
        with pytest.raises(AssertionError):
            player.play(changed)
