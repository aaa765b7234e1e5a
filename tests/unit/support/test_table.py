from __future__ import annotations

import inspect

import pytest

from tests.support.table import table


def test_all_rows_run_and_each_failed_row_is_named():
    seen = []

    @table("number, square", [(1, 1), (2, 5), (3, 9), (4, 15)])
    def squares(number, square):
        seen.append(number)
        assert number**2 == square

    with pytest.raises(ExceptionGroup, match="2 of 4 rows failed") as failed:
        squares()

    assert seen == [1, 2, 3, 4]
    assert ["'number': 2" in error.__notes__[0] for error in failed.value.exceptions] == [True, False]


def test_two_tables_give_every_pair():
    seen = []

    @table("letter", ["a", pytest.param("b", id="the second")])
    @table("number", [1, 2])
    def pairs(letter, number):
        seen.append((letter, number))

    pairs()
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert not inspect.signature(pairs).parameters, "pytest must not look for fixtures of these names"


async def test_a_coroutine_is_awaited_for_each_row():
    seen = []

    @table("number", [1, 2])
    async def numbers(number):
        seen.append(number)
        assert number == 1

    with pytest.raises(ExceptionGroup, match="1 of 2 rows failed"):
        await numbers()
    assert seen == [1, 2]


def test_a_table_without_rows_or_with_a_short_row_is_an_error():
    with pytest.raises(AssertionError, match="at least one row"):
        table("number", [])
    with pytest.raises(ValueError, match="shorter"):
        table("number, square", [(1,)])
