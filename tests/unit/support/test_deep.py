from __future__ import annotations

import pytest

from tests.support.deep import some


def deep(row):
    return any(mark.name == "deep" for mark in getattr(row, "marks", ()))


def test_as_many_rows_as_asked_for_run_always_and_none_is_lost():
    rows = some(range(10), 3)
    assert [row for row in rows if not deep(row)] == [0, 3, 6]
    assert [row.values for row in rows if deep(row)] == [(1,), (2,), (4,), (5,), (7,), (8,), (9,)]


def test_rows_of_several_values_and_named_rows_keep_them():
    first, second, third = some([(1, 2), (3, 4), pytest.param(5, 6, id="last")], 1)
    assert first == (1, 2)
    assert (second.values, third.values, third.id) == ((3, 4), (5, 6), "last")


def test_fewer_rows_than_asked_for_all_run():
    assert some(["a", "b"], 5) == ["a", "b"]
