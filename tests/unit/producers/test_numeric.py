"""What counts as a number where a user gives one."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from switchgear.numeric import is_number, is_whole


@pytest.mark.parametrize("value", [0, -1, 10**400])
def test_a_whole_number_is_a_number_too(value):
    assert is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [0.5, 2.0, math.inf, math.nan])
def test_a_float_is_a_number_and_not_a_whole_one(value):
    assert is_number(value)
    assert not is_whole(value)


@pytest.mark.parametrize("value", [True, False, None, "1", b"1", Decimal(1), 1j, [1]])
def test_whatever_else_is_none(value):
    assert not is_number(value)
    assert not is_whole(value)
