"""Real processes share a tool with a quota. The fleet keeps it, whoever of them wants to call."""

from __future__ import annotations

import pytest

from tests.support.paced_fleet import Arm, policy_text, run

MOST = 1.1
CONVERGES_S = 30.0


async def test_six_processes_keep_a_stated_limit(make_settings, start_worker, tmp_path):
    file = tmp_path / "policies.toml"
    file.write_text(policy_text(100, 5))
    settings = make_settings(policy_file=file)
    start_worker(settings)
    (stated,) = await run(settings, tmp_path, ["stated"], processes=6, calls=100, period_s=5, demand=50, length_s=20)
    assert stated.fullest(after_s=3) <= MOST
    assert stated.used(after_s=3) >= 0.5
    assert stated.waits
    assert stated.given_up > 0


@pytest.mark.deep
async def test_ten_processes_keep_a_learned_limit_and_waste_less_than_without(make_settings, start_worker, tmp_path):
    file = tmp_path / "policies.toml"
    file.write_text(policy_text(300, 10))
    settings = make_settings(policy_file=file)
    start_worker(settings)
    arms: list[Arm] = ["nothing", "own", "learned", "stated"]
    nothing, own, learned, stated = await run(
        settings, tmp_path, arms, processes=10, calls=300, period_s=10, demand=75, length_s=60
    )
    assert learned.fullest(CONVERGES_S) <= MOST
    assert stated.fullest(after_s=3) <= MOST
    assert learned.refused < 0.3 * nothing.refused
    assert stated.refused < 0.2 * nothing.refused
    assert stated.taken > own.taken
