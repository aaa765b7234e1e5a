"""Medians and ratios with intervals by order statistics."""

from __future__ import annotations

import math

import pytest

from tests.bench.intervals import Interval, coverage, interval, number, paired_ratios, ratio, times, with_spread


@pytest.mark.parametrize(
    ("values", "rank", "probability"), [(3, 1, 0.75), (5, 1, 0.9375), (6, 1, 0.96875), (9, 2, 0.9609375)]
)
def test_coverage_of_order_statistics_is_that_of_the_binomial_distribution(values, rank, probability):
    assert coverage(values, rank) == pytest.approx(probability)


def test_few_values_have_an_interval_from_the_smallest_to_the_largest():
    assert interval([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0, 0.75, 3)


def test_many_values_have_the_narrowest_interval_of_enough_coverage():
    found = interval([float(each) for each in range(1, 21)])
    assert (found.median, found.low, found.high) == (10.5, 6.0, 15.0)
    assert found.coverage >= 0.9
    assert coverage(20, 7) < 0.9


def test_one_value_covers_nothing():
    assert interval([4.0]) == Interval(4.0, 4.0, 4.0, 0.0, 1)


@pytest.mark.parametrize(
    ("value", "base", "expected"),
    [
        (6, 3, 2.0),
        (0, 0, 1.0),
        (math.inf, math.inf, 1.0),
        (3, 0, math.inf),
        (math.inf, 2, math.inf),
        (2, math.inf, 0.0),
    ],
)
def test_a_ratio_is_defined_for_zero_and_for_never(value, base, expected):
    assert ratio(value, base) == expected


def test_ratios_are_paired_by_round():
    found = paired_ratios([10.0, 40.0, 90.0], [10.0, 20.0, 30.0])
    assert (found.median, found.low, found.high) == (2.0, 1.0, 3.0)


def test_rounds_without_a_partner_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (0.01234, "0.0123"),
        (4.5678, "4.57"),
        (45.678, "45.7"),
        (12345.6, "12,346"),
        (math.inf, "never"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_spread_is_shown_only_where_values_differ():
    assert with_spread([2, 2, 2]) == "2"
    assert with_spread([1, 3, math.inf]) == "3 (1 to never)"


def test_a_ratio_is_shown_with_its_interval():
    assert times(Interval(4.2, 3.9, math.inf, 0.9, 5)) == "4.2x (3.9 to ∞)"
