"""`switchgear sink` hands its options on."""

from __future__ import annotations

import pytest

from switchgear_api import service
from switchgear_cli.commands.sink import sink

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rewind", [False, True])
async def test_a_sink_reads_again_what_its_store_lacks_only_if_asked_to(rewind, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    given = []

    async def run_sink(_settings, **options):
        given.append(options)

    monkeypatch.setattr(service, "run_sink", run_sink)
    await sink(rewind=rewind, clickhouse=f"chdb:{tmp_path}")
    assert [each["rewind"] for each in given] == [rewind]
