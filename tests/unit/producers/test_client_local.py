"""With no Kafka at all, Switchgear is a complete circuit breaker for its process."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Classification, Permit, Rejection, Switchgear
from switchgear.testing import FakeClock
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.local_client import local_client

QUICK = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=0.3)


class BrokenError(Exception):
    pass


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gear(clock):
    return local_client(clock, local_policies=QUICK)


def fail(gear, tool="search", times=2, error=None):
    for _ in range(times):
        gear.try_acquire(tool).failure(error or BrokenError("it is down"))


def test_a_client_lives_by_the_clock_that_it_is_given():
    clock = FakeClock()
    gear = Switchgear.local(local_policies=QUICK, clock=clock)
    fail(gear)
    assert not gear.try_acquire("search")
    clock.advance(0.3)
    assert gear.try_acquire("search").probe


# -- permits ----------------------------------------------------------------------------------------------------------


def test_five_failures_in_a_row_open_by_default():
    gear = Switchgear.local()
    fail(gear, times=4)
    assert gear.try_acquire("search")
    gear.try_acquire("search").failure(BrokenError())
    assert not gear.try_acquire("search")


def test_a_permit_is_true_and_a_rejection_is_false(gear):
    permit = gear.try_acquire("search")
    assert isinstance(permit, Permit)
    assert permit
    fail(gear)
    rejection = gear.try_acquire("search")
    assert isinstance(rejection, Rejection)
    assert not rejection


def test_a_rejection_says_which_circuit_why_and_when_again(gear):
    fail(gear, error=BrokenError("password=hunter2hunter2 is wrong"))
    rejection = gear.try_acquire("search")
    assert (rejection.tool, rejection.state, rejection.source) == ("search", "open", "local")
    assert 0 < rejection.retry_after_s <= 0.3
    assert rejection.reason
    assert rejection.last_error == "BrokenError: password=[redacted] is wrong"


def test_tools_do_not_share_their_circuits(gear):
    fail(gear, "a")
    assert not gear.try_acquire("a")
    assert gear.try_acquire("b")


@pytest.mark.parametrize("whose", [{"user_id": "ana"}, {"session_id": "s-1"}])
def test_users_and_sessions_have_circuits_of_their_own_where_the_policy_says_so(whose):
    scope = "user" if "user_id" in whose else "session"
    gear = Switchgear.local(local_policies=QUICK.model_copy(update={"scope": scope}))
    for _ in range(2):
        gear.try_acquire("search", **whose).failure(BrokenError())
    assert not gear.try_acquire("search", **whose)
    assert gear.try_acquire("search", **dict.fromkeys(whose, "another"))
    assert gear.try_acquire("search")
    (value,) = whose.values()
    assert gear.status().local == {f"search|{scope}={value}": "open"}


def test_a_success_between_failures_keeps_the_circuit_closed(gear):
    for _ in range(5):
        fail(gear, times=1)
        gear.try_acquire("search").success()
    assert gear.try_acquire("search")


def test_after_the_wait_one_probe_goes_and_its_success_closes(gear, clock):
    fail(gear)
    clock.now += 0.35
    probe = gear.try_acquire("search")
    assert probe.probe
    assert not gear.try_acquire("search")
    probe.success()
    assert gear.try_acquire("search")


def test_a_failed_probe_opens_the_circuit_again(gear, clock):
    fail(gear)
    clock.now += 0.35
    gear.try_acquire("search").failure(BrokenError())
    assert not gear.try_acquire("search")


def test_a_released_probe_is_free_for_the_next_call(gear, clock):
    fail(gear)
    clock.now += 0.35
    gear.try_acquire("search").release()
    assert gear.try_acquire("search")


def test_the_first_report_counts_and_later_ones_do_nothing(gear):
    permit = gear.try_acquire("search")
    permit.success()
    for _ in range(5):
        permit.failure(BrokenError())
    permit.release()
    assert gear.try_acquire("search")


def test_fifty_calls_at_the_end_of_the_wait_make_one_probe(gear, clock):
    fail(gear)
    clock.now += 0.35
    answers = []
    barrier = threading.Barrier(50)

    def call():
        barrier.wait(ANSWER_S)
        answers.append(gear.try_acquire("search"))

    threads = [threading.Thread(target=call) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert sum(map(bool, answers)) == 1


@pytest.mark.parametrize("error", [ValueError("bad argument"), asyncio.CancelledError(), "city not found"])
def test_what_says_nothing_of_the_tools_health_does_not_open(gear, error):
    fail(gear, times=20, error=error)
    assert gear.try_acquire("search")


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionError(), BrokenError(), KeyError("answer")])
def test_what_says_that_the_tool_is_broken_opens(gear, error):
    fail(gear, error=error)
    assert not gear.try_acquire("search")


def test_a_rate_limited_tool_is_left_alone_as_long_as_it_asked(gear):
    class TooManyError(Exception):
        status_code = 429
        retry_after = 30

    fail(gear, error=TooManyError())
    assert gear.try_acquire("search").retry_after_s > 20


def test_an_own_classifier_decides_first_and_leaves_the_rest():
    gear = Switchgear.local(
        local_policies=QUICK,
        classify=lambda error: (
            "tool"
            if isinstance(error, BrokenError)
            else Classification("server")
            if isinstance(error, ValueError)
            else None
        ),
    )
    fail(gear, "a", times=9, error=BrokenError())
    fail(gear, "b", error=ValueError())
    fail(gear, "c", error=TimeoutError())
    assert [bool(gear.try_acquire(tool)) for tool in "abc"] == [True, False, False]


def test_a_classifier_that_fails_leaves_the_tools_own_exception_to_the_caller():
    def broken(_error):
        raise RuntimeError

    gear = Switchgear.local(local_policies=QUICK, classify=broken)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            gear.call("t", raising, TimeoutError())
    assert not gear.try_acquire("t")


def raising(error):
    raise error


def test_policies_are_found_by_name_or_by_function():
    by_name = Switchgear.local(local_policies={"a": BreakerPolicy(consecutive_failures=1)})
    by_function = Switchgear.local(
        local_policies=lambda tool: BreakerPolicy(consecutive_failures=1 if tool == "a" else 9)
    )
    for gear in (by_name, by_function):
        fail(gear, "a", times=1)
        fail(gear, "b", times=1)
        assert not gear.try_acquire("a")
        assert gear.try_acquire("b")


def test_an_error_whose_text_can_not_be_read_counts_as_a_failure(gear):
    class AwfulError(Exception):
        def __str__(self):
            raise RuntimeError

    fail(gear, error=AwfulError())
    assert "can't be read" in gear.try_acquire("search").last_error


# -- calls ------------------------------------------------------------------------------------------------------------


def test_the_tools_own_exception_goes_through_and_then_the_circuit_refuses(gear):
    calls = []

    @gear.guard("search")
    def search():
        calls.append(1)
        raise BrokenError("down")

    for _ in range(2):
        with pytest.raises(BrokenError):
            search()
    with pytest.raises(CircuitOpenError):
        search()
    assert len(calls) == 2


async def test_the_exception_of_a_coroutine_goes_through_and_then_the_circuit_refuses(gear):
    @gear.guard("search")
    async def search():
        await asyncio.sleep(0)
        raise BrokenError("down")

    for _ in range(2):
        with pytest.raises(BrokenError):
            await search()
    with pytest.raises(CircuitOpenError):
        await search()


def test_a_function_can_be_called_without_a_decorator(gear):
    assert gear.call("add", lambda a, b: a + b, 1, b=2) == 3
    fail(gear, "add")
    with pytest.raises(CircuitOpenError):
        gear.call("add", lambda: 1)


async def test_a_coroutine_function_can_be_called_without_a_decorator(gear):
    async def add(a, b):
        await asyncio.sleep(0)
        return a + b

    assert await gear.acall("add", add, 1, b=2) == 3
    fail(gear, "add")
    with pytest.raises(CircuitOpenError):
        await gear.acall("add", add, 1, b=2)


def test_a_permit_block_reports_its_end(gear):
    with gear.permit("search") as permit:
        assert isinstance(permit, Permit)
    for _ in range(2):
        with pytest.raises(BrokenError), gear.permit("search"):
            raise BrokenError
    with pytest.raises(CircuitOpenError), gear.permit("search"):
        pytest.fail("the block must not run")


async def test_an_async_permit_block_reports_its_end(gear):
    for _ in range(2):
        with pytest.raises(BrokenError):
            async with gear.permit("search"):
                raise BrokenError
    with pytest.raises(CircuitOpenError):
        async with gear.permit("search"):
            pytest.fail("the block must not run")


def test_a_report_made_within_a_permit_block_counts(gear):
    for _ in range(2):
        with gear.permit("search") as permit:
            permit.failure(BrokenError())
    assert not gear.try_acquire("search")


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_the_error_carries_everything_and_a_text_for_the_model(gear):
    fail(gear, error=BrokenError("no route"))
    with pytest.raises(CircuitOpenError) as caught:
        gear.call("search", print)
    error = caught.value
    assert (error.tool, error.state, error.source, error.last_error) == (
        "search",
        "open",
        "local",
        "BrokenError: no route",
    )
    assert error.retry_after_s is not None
    assert error.text == (
        "The tool search is unavailable (circuit open). The rule consecutive_failures opened it. Its last error was an error of unknown kind. "
        "Do not call it again within the next 1 s."
    )


def test_the_text_of_a_refusal_names_the_fallback():
    text = Rejection("a", "half_open", "fleet", fallback="b").text
    assert text == "The tool a is unavailable (circuit half open). Do not call it again now. Use b instead."


def test_a_fallback_that_is_not_guarded_here_is_named_in_the_error(gear):
    weather = gear.guard("weather", fallback="elsewhere")(lambda: "x")
    fail(gear, "weather")
    with pytest.raises(CircuitOpenError) as caught:
        weather()
    assert caught.value.fallback == "elsewhere"
    assert "Use elsewhere instead." in caught.value.text


# -- the client -------------------------------------------------------------------------------------------------------


def test_the_status_names_what_is_not_closed(gear):
    gear.try_acquire("fine").success()
    fail(gear)
    status = gear.status()
    assert status.local == {"search": "open"}
    assert (status.emitter, status.follower) == (None, None)


def test_a_local_client_starts_no_thread_and_can_be_closed(gear):
    before = threading.active_count()
    with gear:
        gear.try_acquire("search").success()
        assert gear.start(1)
        assert threading.active_count() == before
    assert gear.flush()
    assert gear.close()
    assert gear.circuits() == {}


async def test_a_client_is_an_async_context_manager():
    async with Switchgear.local() as gear:
        assert (await gear.atry_acquire("x")).generation is None


def test_rejects_an_empty_parameters_key():
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        Switchgear.local(parameters_key=b"")


@pytest.mark.slow
def test_refusals_do_not_grow_memory(gear):
    import tracemalloc  # noqa: PLC0415 - of this test alone

    fail(gear)
    gear._decision.local.circuits["search"].breaker.open_until = 1e12
    for _ in range(1_000):
        gear.try_acquire("search")
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(20_000):
        gear.try_acquire("search")
    grown = sum(found.size_diff for found in tracemalloc.take_snapshot().compare_to(before, "filename"))
    tracemalloc.stop()
    assert grown < 20_000


@pytest.mark.slow
def test_threads_that_call_at_once_lose_no_count():
    gear = Switchgear.local(local_policies=BreakerPolicy(failure_count=10_000_000, sliding_window_size=600))

    def work():
        for number in range(2_000):
            permit = gear.try_acquire("search")
            permit.failure(BrokenError()) if number % 2 else permit.success()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    counts = gear._decision.local.circuits["search"].breaker.counts(time.monotonic())
    assert (counts.total_calls, counts.total_failed) == (8_000, 4_000)


def test_parameters_that_can_not_be_hashed_do_not_keep_the_call_from_being_made(caplog):
    gear = Switchgear.local(parameters_key=b"k")
    endless: list = []
    endless.append(endless)
    assert gear.call("t", len, endless) == 1
    assert "parameters of t have no hash" in caplog.text


def test_the_call_is_made_even_if_no_thread_can_be_started(monkeypatch, caplog):
    gear = Switchgear("127.0.0.1:1")

    def no_thread(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert gear.call("t", lambda: 1) == 1
    assert "can't be started: RuntimeError: can't start new thread" in caplog.text
    gear.close(0)
