"""The behaviour of other breakers, from their own test suites, compared with ours step by step.

The scenarios are read from the file that ``SWITCHGEAR_SCENARIOS`` names, else from the shared folder; and from ``more_scenarios.json`` and
``evidence_scenarios.json`` beside this file in any case. The latter are about what counts as evidence: when, and against whom.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import family_player, group_player, local_player, session_player, shared_player
from tests.acceptance.family_player import FamilyPlayer
from tests.acceptance.group_player import GroupPlayer
from tests.acceptance.local_player import LocalPlayer
from tests.acceptance.session_player import SessionPlayer
from tests.acceptance.shared_player import SharedPlayer
from tests.support.shared import REPOSITORY, shared_folder

MORE = Path(__file__).with_name("more_scenarios.json")
EVIDENCE = Path(__file__).with_name("evidence_scenarios.json")
PLAYERS = {
    "local": LocalPlayer,
    "shared": SharedPlayer,
    "group": GroupPlayer,
    "session": SessionPlayer,
    "family": FamilyPlayer,
}
ACTIONS = {
    "local": local_player.ACTION_KEYS,
    "shared": shared_player.ACTION_KEYS,
    "group": group_player.ACTION_KEYS,
    "session": session_player.ACTION_KEYS,
    "family": family_player.ACTION_KEYS,
}
"""By kind, the keys of a step that say what happens. All others are expectations."""
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
OURS = read(MORE) + read(EVIDENCE)


@pytest.mark.shared
def test_the_scenarios_were_found() -> None:
    if not SCENARIOS:
        shared_folder()
    assert SCENARIOS


def test_every_scenario_of_ours_has_an_id_of_its_own_and_says_where_it_is_from() -> None:
    assert len({one["id"] for one in OURS}) == len(OURS) >= 167
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


OTHER_STATE = {"open": "closed", "half_open": "closed", "closed": "open"}


def turned(step: dict[str, Any], actions: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the step once for each of its expectations, with that one wrong."""
    for key, expected in step.items():
        if key not in actions:
            for other in wrong(expected):
                yield step | {key: other}


def wrong(expected: Any) -> Iterator[Any]:
    """Yield values that differ from an expected one; of a dict, one for each of its values."""
    if isinstance(expected, bool):
        yield not expected
    elif isinstance(expected, int | float):
        yield expected + 1
    elif isinstance(expected, str):
        yield OTHER_STATE.get(expected, f"not {expected}")
    elif isinstance(expected, list):
        yield [*expected, "another"]
    elif isinstance(expected, dict) and expected:
        for name, value in expected.items():
            for other in wrong(value):
                yield expected | {name: other}
    else:
        yield {"another": -1} if expected == {} else -1


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS + OURS, ids=[one["id"] for one in SCENARIOS + OURS])
def test_no_scenario_passes_with_a_wrong_expectation(scenario: dict[str, Any]) -> None:
    kind, steps = scenario["kind"], scenario["steps"]
    false_steps = [(place, one) for place, step in enumerate(steps) for one in turned(step, ACTIONS[kind])]
    assert false_steps, "it expects nothing"
    for place, false_step in false_steps:
        player = PLAYERS[kind](scenario["config"])
        for step in steps[:place]:
            player.play(step)
        with pytest.raises(AssertionError):
            player.play(false_step)


@pytest.mark.parametrize("scenario", OURS, ids=[one["id"] for one in OURS])
def test_players_refuse_expectations_and_config_keys_that_they_do_not_know(scenario: dict[str, Any]) -> None:
    player = PLAYERS[scenario["kind"]]
    with pytest.raises(AssertionError, match="does not know the expectation allowed"):
        player(scenario["config"]).play(scenario["steps"][0] | {"allowed": True})
    with pytest.raises(AssertionError, match=r"does not know the config key.*open_seconds"):
        player(scenario["config"] | {"open_seconds": 60})
