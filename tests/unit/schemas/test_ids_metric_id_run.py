"""Identifiers minted by the run are as good as those minted one by one."""

from __future__ import annotations

import time
from itertools import pairwise
from uuid import UUID

import pytest

from switchgear_schemas.ids import metric_id_run, mint_metric_id


def minted(count):
    start, endings = metric_id_run()
    return [(start + ending).decode() for ending in endings[:count]]


def test_a_run_of_metric_ids_has_4096_in_rising_order():
    ids = minted(5_000)
    assert len(ids) == 4_096
    assert all(first < second for first, second in pairwise(ids))


@pytest.mark.slow
def test_each_metric_id_of_a_run_is_a_version_7_uuid_of_now():
    before = int(time.time() * 1000)
    for text in minted(5_000):
        found = UUID(text)
        assert str(found) == text
        assert (found.version, found.variant) == (7, UUID(mint_metric_id()).variant)
        assert before - 1 <= found.int >> 80 <= int(time.time() * 1000) + 1


def test_two_runs_of_metric_ids_share_none():
    ids = [text for _ in range(2_000) for text in minted(10)]
    assert len(set(ids)) == len(ids)
