"""The fuzzer of messages for some seconds. ``make fuzz`` runs it longer, with other seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.messages.folded import fold
from tests.fuzz.messages.running import fuzz, settings_for

pytestmark = pytest.mark.deep


def test_the_fold_and_the_decoders_stand_hostile_messages():
    result = fold(seed=1, seconds=5)
    assert result.findings == []
    assert result.records > 500
    assert result.dead > 100


async def test_a_running_worker_and_sink_stand_hostile_records_in_every_topic(make_settings, tmp_path):
    outcome = await fuzz(settings_for(make_settings, tmp_path), 1, 10, tmp_path)
    assert outcome.findings == []
    assert outcome.rounds > 0
    assert outcome.dead > 10
