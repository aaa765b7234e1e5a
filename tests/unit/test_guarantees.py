"""Every path, metric, bench and status field that docs/guarantees.md names exists."""

from __future__ import annotations

import re

import pytest

from switchgear.client import SwitchgearStatus
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear_schemas.settings import Settings
from switchgear_stream.metrics import WorkerMetrics
from tests.support.snippets import REPOSITORY
from tests.support.table import table

TEXT = (REPOSITORY / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROMISES = ("No silent loss", "No over-count", "One owner, one order", "Exactly N probes", "The call path never waits")


@table("path", sorted(set(re.findall(r"`(tests/[^`]+)`", TEXT))))
def test_guarantees_page_names_only_tests_that_exist(path):
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize("bench", sorted(set(re.findall(r"python -m (tests\.bench\.\w+)", TEXT))))
def test_guarantees_page_names_only_benches_that_exist(bench):
    place = REPOSITORY / bench.replace(".", "/")
    assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()


@table("promise", PROMISES)
def test_every_promise_says_what_it_rests_on_what_it_does_not_cover_and_which_tests_show_it(promise):
    section = TEXT.partition(f"\n## {promise}\n")[2].partition("\n## ")[0]
    for part in ("**Rests on.**", "**Does not cover**", "**Shown by** `tests/"):
        assert part in section, f"{promise} lacks {part}"


def test_pages_name_only_metrics_that_the_worker_publishes():
    known = {family.name for family in WorkerMetrics().registry.collect()}
    pages = (REPOSITORY / "docs").rglob("*.md")
    named = {name for page in pages for name in re.findall(r"switchgear_worker_\w+", page.read_text())}
    assert {name.removesuffix("_total") for name in named} <= known


def test_guarantees_page_names_only_fields_that_the_status_has():
    named = re.findall(r"`status\(\)\.(\w+)(?:\.(\w+))?", TEXT)
    assert {field for field, _ in named if not hasattr(SwitchgearStatus, field)} <= set(
        SwitchgearStatus.__dataclass_fields__
    )
    parts = {"emitter": EmitterStatus, "follower": FollowerStatus}
    for field, inner in named:
        assert not inner or inner in parts[field].__dataclass_fields__, f"{field}.{inner}"
    assert len(named) >= 6


def test_guarantees_page_states_the_failover_time_of_the_settings_and_the_tests():
    field = Settings.model_fields["worker_session_timeout_s"]
    source = (REPOSITORY / "tests/integration/stream/test_worker_killed.py").read_text(encoding="utf-8")
    assert f"({field.default:g} s by default, 6 at the least)" in TEXT
    assert "FAILOVER_S = 10.0" in source
    assert "within 10 s more" in TEXT
