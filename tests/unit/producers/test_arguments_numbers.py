"""What counts as a number where a user gives one."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from switchgear.arguments import is_number, is_whole
from tests.support.table import table


@pytest.mark.parametrize("value", [0, -1, 10**400])
def test_integer_is_whole_and_a_number(value):
    assert is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [0.5, 2.0, math.inf, math.nan])
def test_float_is_a_number_but_not_whole(value):
    assert is_number(value)
    assert not is_whole(value)


@table("value", [True, False, None, "1", b"1", Decimal(1), 1j, [1]])
def test_other_values_are_not_numbers(value):
    assert not is_number(value)
    assert not is_whole(value)
