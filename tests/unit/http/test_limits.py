"""Limits by client hold, and their tables stay small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_http.limits import MAX_ADDRESSES, FailedLogins, InProgress
from switchgear_http.problem import ProblemError
from tests.support.clock import Clock


def test_request_beyond_the_limit_of_a_key_is_refused_until_another_ends():
    running = InProgress(2, "token")
    with running.request("a"):
        with running.request("a"), running.request("b"), pytest.raises(ProblemError, match="2 requests") as caught:
            running.request("a").__enter__()
        assert (caught.value.status, caught.value.headers) == (429, {"Retry-After": "1"})
        with running.request("a"):
            pass


def test_ended_requests_need_no_memory_even_if_they_fail():
    running = InProgress(1, "token")
    for key in map(str, range(1000)):
        with pytest.raises(KeyError), running.request(key):
            raise KeyError(key)
    assert len(running) == 0


def test_failed_logins_beyond_the_burst_must_wait_and_one_more_is_allowed_at_a_time():
    clock = Clock(0.0)
    failed = FailedLogins(3, 10.0, clock=clock)
    assert [failed.count("10.0.0.1") for _ in range(4)] == [0, 0, 0, 10]
    assert failed.count("10.0.0.1") == 10  # a refused login does not lengthen the wait
    assert failed.count("10.0.0.2") == 0
    clock.now = 10.0
    assert [failed.count("10.0.0.1") for _ in range(2)] == [0, 10]
    clock.now = 1000.0
    assert [failed.count("10.0.0.1") for _ in range(4)] == [0, 0, 0, 10]


@pytest.mark.slow
@given(st.lists(st.floats(0, 30), max_size=60))
def test_no_schedule_gets_more_failed_logins_than_burst_and_rate_allow(pauses):
    clock = Clock(0.0)
    failed = FailedLogins(3, 10.0, clock=clock)
    answered = 0
    for pause in pauses:
        clock.now += pause
        answered += failed.count("10.0.0.1") == 0
    assert answered <= 3 + clock.now / 10.0 + 1e-6


@pytest.mark.slow
def test_table_of_failed_logins_is_bounded_for_a_hundred_thousand_addresses():
    failed = FailedLogins(3, 10.0, clock=Clock(0.0))
    for number in range(100_000):
        failed.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failed) == MAX_ADDRESSES


def test_addresses_of_one_host_share_a_limit():
    failed = FailedLogins(1, 10.0, clock=Clock(0.0))
    for one, other in (("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:10.0.0.9", "10.0.0.9"), ("proxy", "proxy")):
        assert failed.count(one) == 0
        assert failed.count(other) > 0
    assert failed.count("2001:db8:0:1::1") == 0
