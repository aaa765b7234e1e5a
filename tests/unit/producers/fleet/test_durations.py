import math
import random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from switchgear.fleet.durations import (
    ENOUGH,
    HALVED_AT,
    MOST_BUCKET,
    Durations,
    bucket_of,
    is_news,
    overdue_after_ms,
    upper_ms,
)
from switchgear_schemas.policy import BreakerPolicy

NO_RULE = BreakerPolicy(failure_count=1)
BY_RATE = BreakerPolicy(slow_call_rate_threshold=0.5)
THRESHOLD = BreakerPolicy(slow_call_rate_threshold=0.5, slow_call_duration_threshold_ms=200)


def durations_of(*each, times=1):
    durations = Durations({})
    for _ in range(times):
        for ms in each:
            durations.add(ms)
    return durations


@given(st.floats(min_value=0, max_value=1e9))
@example(2.0)
@example(2**0.25)
@example(1024.0)
def test_a_duration_is_in_the_lowest_bucket_that_reaches_it(ms):
    bucket = bucket_of(ms)
    assert ms <= upper_ms(bucket)
    assert bucket == 0 or upper_ms(bucket - 1) < ms or bucket <= 4


@given(st.floats(min_value=1.2, max_value=1e9))
def test_a_bucket_is_a_fifth_wide(ms):
    assert upper_ms(bucket_of(ms)) / ms <= 2**0.25 + 1e-12


@pytest.mark.parametrize("ms", [0.0, -1.0, 1e-320, 1.0, math.nan])
def test_what_takes_no_time_is_in_the_first_bucket(ms):
    assert bucket_of(ms) == 0
    assert upper_ms(0) == 1


@pytest.mark.parametrize("ms", [1e9, 1e10, 1e300, math.inf])
def test_the_longest_durations_share_the_last_bucket(ms):
    assert bucket_of(ms) == MOST_BUCKET


def test_the_99th_percentile_is_the_longest_of_all_but_one_in_a_hundred():
    chance = random.Random(36)
    for _ in range(20):
        found = [chance.lognormvariate(5, 1.5) for _ in range(ENOUGH * 10)]
        durations = Durations({})
        for ms in found:
            durations.add(ms)
        exact = sorted(found)[-11]
        assert exact <= durations.p99_ms() <= exact * 2**0.25 + 1e-9


def test_one_slow_call_in_a_hundred_is_not_the_99th_percentile_and_two_are():
    assert durations_of(*[100.0] * 99, 9_000.0).p99_ms() == upper_ms(bucket_of(100))
    assert durations_of(*[100.0] * 98, 9_000.0, 9_000.0).p99_ms() == upper_ms(bucket_of(9_000))


def test_few_calls_have_no_percentile():
    assert durations_of(60_000.0, times=ENOUGH - 1).p99_ms() is None
    assert durations_of(60_000.0, times=ENOUGH).p99_ms() is not None


def test_old_calls_fade_and_the_counts_stay_small():
    durations = durations_of(100.0, times=10_000)
    assert durations.total < HALVED_AT
    for _ in range(HALVED_AT):
        durations.add(10_000.0)
    assert durations.p99_ms() == upper_ms(bucket_of(10_000))
    for _ in range(10 * HALVED_AT):
        durations.add(100.0)
    assert durations.p99_ms() == upper_ms(bucket_of(100))
    assert durations.counts.keys() == {bucket_of(100)}
    assert durations.total == sum(durations.counts.values())


def test_counts_of_every_bucket_take_less_than_half_a_kilobyte():
    durations = durations_of(*(upper_ms(bucket) for bucket in range(MOST_BUCKET + 1)), times=16)
    assert len(msgspec.msgpack.encode(durations.counts)) < 512


def test_the_policys_threshold_is_the_limit_whatever_calls_take():
    assert overdue_after_ms(THRESHOLD, Durations({})) == 200
    assert overdue_after_ms(THRESHOLD, durations_of(60_000.0, times=ENOUGH)) == 200


def test_the_limit_that_the_fleet_learns_is_three_times_the_p99_and_at_least_five_seconds():
    slow = durations_of(2_000.0, times=ENOUGH)
    assert overdue_after_ms(NO_RULE, slow) == 3 * slow.p99_ms() > 6_000
    assert overdue_after_ms(NO_RULE, durations_of(1_000.0, times=ENOUGH)) is None
    assert overdue_after_ms(NO_RULE, Durations({})) is None
    assert overdue_after_ms(BY_RATE, slow) == 3 * slow.p99_ms()
    assert overdue_after_ms(BY_RATE, durations_of(1_000.0, times=ENOUGH)) == 5_000
    assert overdue_after_ms(BY_RATE, Durations({})) == 5_000


@pytest.mark.parametrize(
    ("known", "found", "news"),
    [
        (None, None, False),
        (None, 6_000.0, True),
        (6_000.0, None, True),
        (6_000.0, 6_000.0, False),
        (6_000.0, 8_000.0, False),
        (6_000.0, 8_400.0, True),
        (6_000.0, 4_500.0, False),
        (6_000.0, 4_200.0, True),
    ],
)
def test_a_limit_that_is_learned_is_news_if_it_changes_by_two_buckets(known, found, news):
    assert is_news(NO_RULE, known, found) is news


def test_another_threshold_of_the_policy_is_always_news():
    assert is_news(THRESHOLD, 200.0, 201.0)
    assert not is_news(THRESHOLD, 200.0, 200.0)
