"""Real processes call one tool during its recoveries. Exactly the configured number of probes reaches it."""

from __future__ import annotations

import pytest

from tests.support.deep import some
from tests.support.recovering import callers, policy_text, recoveries
from tests.support.shared_tool import SharedTool


@pytest.mark.parametrize(("probes", "rounds"), some([(3, 2), (1, 3)], 1))
async def test_five_processes_make_exactly_the_configured_number_of_probes(
    make_settings, start_worker, tmp_path, probes, rounds
):
    file = tmp_path / "policies.toml"
    file.write_text(policy_text(probes, wait_s=2))
    settings = make_settings(policy_file=file)
    start_worker(settings)
    async with SharedTool() as tool, callers(settings, tool, 5, tmp_path):
        assert await recoveries(settings, tool, probes, rounds) == [(probes, 0)] * rounds
