import pytest

from tests.bench.benefit.estimate import difference, mean, ratio

RUNS = [(1.0, 2.0), (3.0, 2.0), (2.0, 2.0), (4.0, 2.0)]


def test_a_mean_is_the_sum_by_the_sum_and_lies_in_its_interval():
    found = mean(RUNS)
    assert found.value == pytest.approx(10 / 8)
    assert 0.5 <= found.low < found.value < found.high <= 2.0


def test_runs_that_are_equal_have_an_interval_without_width():
    found = mean([(1.0, 4.0)] * 5)
    assert (found.low, found.high) == (0.25, 0.25)
    assert found.text(2) == "0.25"


def test_a_ratio_of_pairs_has_no_spread_if_each_pair_has_the_same():
    found = ratio([(2 * above, below) for above, below in RUNS], RUNS)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_a_difference_of_pairs_has_no_spread_if_each_pair_has_the_same():
    found = difference([(above + below, below) for above, below in RUNS], RUNS)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))


def test_nothing_to_divide_by_is_zero():
    assert mean([(0.0, 0.0)]).value == 0.0
