"""Identifiers minted by the run are as good as those minted one by one."""

from __future__ import annotations

import time
from itertools import pairwise
from uuid import UUID

import pytest

from switchgear_schemas.ids import mint_metric_id, mint_metric_ids


@pytest.mark.parametrize("count", [0, 1, 4_095, 4_096, 4_097, 10_000])
def test_as_many_as_asked_for_in_rising_order(count):
    ids = mint_metric_ids(count)
    assert len(ids) == count
    assert all(first < second for first, second in pairwise(ids))


def test_each_is_a_version_7_of_now():
    before = int(time.time() * 1000)
    for text in mint_metric_ids(5_000):
        found = UUID(text)
        assert str(found) == text
        assert (found.version, found.variant) == (7, UUID(mint_metric_id()).variant)
        assert before - 1 <= found.int >> 80 <= int(time.time() * 1000) + 1


def test_runs_do_not_meet():
    ids = [text for _ in range(2_000) for text in mint_metric_ids(10)]
    assert len(set(ids)) == len(ids)
