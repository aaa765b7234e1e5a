"""Results are used again while they are fresh, and stale ones only marked as such."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.arguments import OptionError
from switchgear.caching.cache import Cached, CachePolicy, ResultCache, result_caches
from tests.support.clock import Clock
from tests.support.limits import HAPPEN_S
from tests.support.table import table


async def marked_async(value, _age_s):
    return value


class Unhashable:
    """Marks, and has a list's equality."""

    __hash__ = None

    def __call__(self, value, _age_s):
        return f"{value} (old)"


@pytest.fixture
def clock():
    return Clock(0.0)


def test_a_result_is_fresh_until_its_ttl(clock):
    cache = ResultCache(CachePolicy(ttl_s=60), clock)
    cache.put("oslo", "rain")
    clock.now = 59.9
    assert cache.get("oslo") == Cached("rain", 59.9, stale=False)
    clock.now = 60
    assert cache.get("oslo") is None
    assert len(cache) == 0


def test_a_key_that_was_never_stored_has_no_result(clock):
    assert ResultCache(CachePolicy(), clock).get("oslo") is None


def test_none_is_cached_like_any_other_result(clock):
    cache = ResultCache(CachePolicy(), clock)
    cache.put("oslo", None)
    assert cache.get("oslo") == Cached(None, 0.0, stale=False)


def test_a_result_past_its_ttl_is_stale_for_a_while(clock):
    cache = ResultCache(CachePolicy(ttl_s=60, stale_for_s=30), clock)
    cache.put("oslo", "rain")
    clock.now = 60
    assert cache.get("oslo") == Cached("rain", 60, stale=True)
    clock.now = 89.9
    assert cache.get("oslo").stale
    clock.now = 90
    assert cache.get("oslo") is None


def test_with_a_ttl_of_zero_results_serve_only_refused_calls(clock):
    cache = ResultCache(CachePolicy(ttl_s=0, stale_for_s=300), clock)
    cache.put("oslo", "rain")
    assert cache.get("oslo") == Cached("rain", 0.0, stale=True)


def test_a_stale_result_is_marked_and_the_stored_one_is_not(clock):
    policy = CachePolicy(ttl_s=60, stale_for_s=300, mark_stale=lambda value, age_s: f"{value} ({age_s:.0f} s ago)")
    cache = ResultCache(policy, clock)
    cache.put("oslo", "rain")
    assert cache.get("oslo").value == "rain"
    clock.now = 120
    assert cache.get("oslo").value == "rain (120 s ago)"
    clock.now = 130
    assert cache.get("oslo").value == "rain (130 s ago)"


def test_a_stale_result_that_cannot_be_marked_is_not_served(clock, caplog):
    cache = ResultCache(CachePolicy(ttl_s=60, stale_for_s=300, mark_stale=lambda value, _age_s: value["x"]), clock)
    cache.put("oslo", "rain")
    clock.now = 120
    assert [cache.get("oslo", tool="weather") for _ in range(100)] == [None] * 100
    (record,) = caplog.records
    assert "mark_stale of weather failed, so the stale result is not served: TypeError" in record.getMessage()
    assert record.exc_info is None
    clock.now += 61
    cache.get("oslo", tool="weather")
    assert "(99 more since the last report)" in caplog.records[-1].getMessage()


def test_a_stale_result_is_not_marked_for_a_caller_that_wants_a_fresh_one(clock):
    marked = []
    cache = ResultCache(CachePolicy(ttl_s=60, stale_for_s=300, mark_stale=lambda *given: marked.append(given)), clock)
    cache.put("oslo", "rain")
    assert cache.get("oslo", stale=False) == Cached("rain", 0.0, stale=False)
    clock.now = 120
    assert cache.get("oslo", stale=False) is None
    assert marked == []
    assert cache.get("oslo").stale
    assert marked == [("rain", 120.0)]


def test_marking_may_use_the_cache_itself(clock):
    cache = ResultCache(
        CachePolicy(ttl_s=0, stale_for_s=9, mark_stale=lambda value, _age_s: (value, len(cache))), clock
    )
    cache.put("oslo", "rain")
    assert cache.get("oslo").value == ("rain", 1)


def test_a_later_result_replaces_the_earlier_one(clock):
    cache = ResultCache(CachePolicy(ttl_s=60), clock)
    cache.put("oslo", "rain")
    clock.now = 50
    cache.put("oslo", "sun")
    clock.now = 100
    assert cache.get("oslo") == Cached("sun", 50, stale=False)


def test_drops_the_result_that_was_used_longest_ago(clock):
    cache = ResultCache(CachePolicy(max_entries=2), clock)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a")
    cache.put("c", 3)
    assert cache.get("b") is None
    assert cache.get("a").value == 1
    assert cache.get("c").value == 3


@table(
    ("wrong", "named"),
    [
        ({"ttl_s": -1}, "ttl_s"),
        ({"ttl_s": float("nan")}, "ttl_s"),
        ({"stale_for_s": -1}, "stale_for_s"),
        ({"ttl_s": 0}, "ttl_s and stale_for_s"),
        ({"max_entries": 0}, "max_entries"),
        ({"mark_stale": "old"}, "mark_stale"),
        ({"ttl_s": "60"}, "ttl_s must be a number of seconds from 0 to inf, not '60'"),
        ({"ttl_s": None}, "ttl_s"),
        ({"ttl_s": True}, "ttl_s"),
        ({"ttl_s": timedelta(minutes=1)}, "ttl_s"),
        ({"stale_for_s": "1"}, "stale_for_s"),
        ({"max_entries": "5"}, "max_entries must be a whole number from 1, not '5'"),
        ({"max_entries": None}, "max_entries"),
        ({"max_entries": 2.5}, "max_entries"),
        ({"max_entries": True}, "max_entries"),
        ({"mark_stale": marked_async}, "mark_stale must be a plain function"),
    ],
)
def test_rejects_a_policy_out_of_range(wrong, named):
    with pytest.raises(OptionError, match=named):
        CachePolicy(**wrong)


def test_mark_stale_need_not_be_hashable(clock):
    cache = result_caches(clock)
    policy = CachePolicy(ttl_s=1, stale_for_s=9, mark_stale=Unhashable())
    cache("t", policy).put("oslo", "rain")
    clock.now = 5
    assert cache("t", policy).get("oslo").value == "rain (old)"
    assert cache("t", CachePolicy(ttl_s=1, stale_for_s=9, mark_stale=Unhashable())).get("oslo") is None


@pytest.mark.slow
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "get"]), st.integers(0, 6), st.floats(0, 30, allow_nan=False)), max_size=60
    ),
    size=st.integers(1, 4),
)
def test_never_serves_an_old_or_unknown_result_and_never_keeps_too_many(steps, size):
    clock = Clock(0.0)
    cache = ResultCache(CachePolicy(ttl_s=20, stale_for_s=10, max_entries=size), clock)
    latest = {}
    for number, (what, key, wait) in enumerate(steps):
        clock.now += wait
        if what == "put":
            cache.put(str(key), number)
            latest[str(key)] = (number, clock.now)
        else:
            found = cache.get(str(key))
            if found is not None:
                value, put_at = latest[str(key)]
                assert found.value == value
                assert found.age_s == clock.now - put_at < 30
                assert found.stale == (found.age_s >= 20)
        assert len(cache) <= size


@pytest.mark.slow
def test_threads_share_a_cache_safely(clock):
    cache = ResultCache(CachePolicy(max_entries=8), clock)
    wrong = []

    def work(seed):
        for number in range(3_000):
            key = str((number * seed) % 13)
            cache.put(key, key)
            found = cache.get(key)
            if found is not None and found.value != key:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert not wrong
    assert len(cache) <= 8
