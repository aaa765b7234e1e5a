"""The first call of any form waits once for the fleet's circuits, at most ``start_wait_s``, and never blocks the event loop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from switchgear import CircuitOpenError, FunctionHooks, Switchgear, SwitchgearError
from switchgear.follower import base as follower_module
from switchgear.follower.follower import CircuitFollower
from switchgear.runtime import lifetime as lifetime_module
from switchgear.testing import InMemoryFleet
from switchgear_schemas import Circuit
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S, READY_S
from tests.support.table import table
from tests.support.waiting import until

NO_BROKER = "127.0.0.1:1"
LONG_S = 60.0

Make = Callable[..., Switchgear]


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def client(**options: Any) -> Switchgear:
        made.append(Switchgear(NO_BROKER, **options))
        return made[-1]

    yield client
    for gear in made:
        gear.close(0)


@pytest.fixture
def gear(make: Make) -> Switchgear:
    """Return a client that learns, while its first call waits, that the fleet's circuit of "t" is open."""
    made = make(start_wait_s=LONG_S, tool_list="new_sessions")
    heard(made)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the wait, which a test moves."""
    made = Clock()
    watch = SimpleNamespace(monotonic=made, sleep=time.sleep)
    for module in (lifetime_module, follower_module):
        monkeypatch.setattr(module, "time", watch)
    return made


def follower_of(gear: Switchgear) -> CircuitFollower:
    found = gear._follower
    assert isinstance(found, CircuitFollower)
    return found


def load(gear: Switchgear) -> None:
    """Do what the follower does when the broker has answered."""
    circuit = Circuit(
        circuit_id="t", tool_name="t", state="forced_open", version=1, generation=1, changed_at=datetime.now(UTC)
    )
    follower = follower_of(gear)
    follower.table.apply(b"t", circuit.to_bytes())
    follower.loaded = follower._read_here = True


def looks_of(gear: Switchgear) -> list[int]:
    """Return a list that grows with each look of a waiting call at what was loaded: the thread that looks."""
    follower, looks = follower_of(gear), []
    really = follower._must_wait

    def look(deadline: float) -> bool:
        looks.append(threading.get_ident())
        return really(deadline)

    follower._must_wait = look  # type: ignore[method-assign]
    return looks


def heard(gear: Switchgear, enough: Callable[[list[int]], bool] = lambda looks: len(looks) >= 3) -> None:
    """Load the circuits as soon as calls have looked for them ``enough``."""
    looks, follower = looks_of(gear), follower_of(gear)
    really = follower._must_wait

    def look(deadline: float) -> bool:
        waits = really(deadline)
        if enough(looks) and not follower.loaded:
            load(gear)
        return waits

    follower._must_wait = look  # type: ignore[method-assign]


def took(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


# -- synchronous forms ------------------------------------------------------------------------------------------------


def items() -> Iterator[int]:
    yield 1


def within_session(gear: Switchgear) -> object:
    with gear.session("s"):
        return gear.call("t", int)


def entered(gear: Switchgear) -> object:
    with gear.permit("t"):
        return "called"


def entered_client(gear: Switchgear) -> object:
    gear.__enter__()  # the fixture closes it, without the end of a block that waits for Kafka
    assert gear._runtime.started
    return gear.call("t", int)


RAISING: dict[str, Callable[[Switchgear], object]] = {
    "guarded function": lambda gear: gear.guard("t")(int)(),
    "guarded with options": lambda gear: gear.guard("t", timeout=5)(int)(),
    "guarded generator": lambda gear: list(gear.guard("t")(items)()),
    "call": lambda gear: gear.call("t", int),
    "answer": lambda gear: gear.answer("t", int),
    "with_options": lambda gear: gear.with_options(timeout=5).call("t", int),
    "session": within_session,
    "permit": entered,
    "with": entered_client,
}
ASKING: dict[str, Callable[[Switchgear], object]] = {
    "try_acquire": lambda gear: not gear.try_acquire("t"),
    "is_open": lambda gear: gear.is_open("t"),
    "available": lambda gear: gear.available(["t", "u"], session_id="s") == ["u"],
    "notice": lambda gear: "t" in gear.notice(),
    "circuits": lambda gear: gear.circuits()["t"].forced,
}


@pytest.mark.parametrize("form", RAISING)
def test_the_first_call_is_refused_when_the_fleets_circuit_is_open(gear: Switchgear, form: str) -> None:
    with pytest.raises(CircuitOpenError) as refused:
        RAISING[form](gear)
    assert refused.value.source == "fleet"


@pytest.mark.parametrize("form", ASKING)
def test_the_first_question_waits_for_the_fleets_circuits(gear: Switchgear, form: str) -> None:
    assert ASKING[form](gear) is True


@pytest.mark.parametrize("form", RAISING)
def test_without_a_wait_the_first_call_is_made_at_once(make: Make, form: str) -> None:
    gear = make()
    assert took(lambda: RAISING[form](gear)) < 5


# -- coroutines -------------------------------------------------------------------------------------------------------


async def nothing() -> int:
    return 0


async def aitems() -> Any:
    yield 1


async def astream(gear: Switchgear) -> object:
    return [item async for item in gear.guard("t")(aitems)()]


async def aentered(gear: Switchgear) -> object:
    async with gear.permit("t"):
        return "called"


async def aentered_client(gear: Switchgear) -> object:
    await gear.__aenter__()
    assert gear._runtime.started
    return await gear.acall("t", nothing)


async def aasked(gear: Switchgear) -> object:
    answer = await gear.atry_acquire("t")
    if not answer:
        raise answer.error()
    return answer


AWAITED: dict[str, Callable[[Switchgear], Any]] = {
    "guarded coroutine function": lambda gear: gear.guard("t")(nothing)(),
    "guarded with options": lambda gear: gear.guard("t", timeout=5)(nothing)(),
    "guarded async generator": astream,
    "acall": lambda gear: gear.acall("t", nothing),
    "aanswer": lambda gear: gear.aanswer("t", nothing),
    "async with permit": aentered,
    "async with client": aentered_client,
    "atry_acquire": aasked,
}


@pytest.mark.parametrize("form", AWAITED)
async def test_the_first_coroutine_is_refused_and_the_event_loop_goes_on_meanwhile(make: Make, form: str) -> None:
    gear = make(start_wait_s=LONG_S)
    looks = looks_of(gear)

    async def load_after_three_looks() -> None:
        while len(looks) < 3:  # noqa: ASYNC110 - no event tells of a look
            await asyncio.sleep(0.001)
        load(gear)

    loading = asyncio.ensure_future(load_after_three_looks())
    with pytest.raises(CircuitOpenError) as refused:
        await AWAITED[form](gear)
    await loading
    assert refused.value.source == "fleet"


async def test_first_coroutines_at_the_same_time_share_one_wait(make: Make) -> None:
    gear = make(start_wait_s=LONG_S)
    heard(gear, lambda looks: len(looks) > 500)
    guarded = gear.guard("t")(nothing)
    found = await asyncio.gather(*[guarded() for _ in range(500)], return_exceptions=True)
    assert {type(each) for each in found} == {CircuitOpenError}


async def test_a_cancelled_first_coroutine_leaves_the_wait_to_the_next(make: Make) -> None:
    gear = make(start_wait_s=LONG_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gear.acall("t", nothing), 0.01)
    heard(gear)
    with pytest.raises(CircuitOpenError):
        await gear.acall("t", nothing)


# -- once, and bounded ------------------------------------------------------------------------------------------------


def test_first_calls_of_threads_at_the_same_time_share_one_wait(make: Make) -> None:
    gear = make(start_wait_s=LONG_S)
    heard(gear, lambda looks: len(set(looks)) == 16)
    guarded, found = gear.guard("t")(int), []

    def call() -> None:
        try:
            found.append(guarded())
        except CircuitOpenError as refused:
            found.append(refused.source)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert found == ["fleet"] * 16


def test_only_the_first_call_waits_when_kafka_is_down(
    make: Make, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    gear = make(start_wait_s=3)
    guarded, looks = gear.guard("t")(int), looks_of(gear)
    first = threading.Thread(target=guarded)
    first.start()
    until(lambda: looks)
    clock.now += 2.9
    before = len(looks)
    until(lambda: len(looks) > before + 2)
    clock.now += 0.2
    first.join(LONG_S)
    assert not first.is_alive()
    before = len(looks)
    for _ in range(100):
        guarded()
    assert len(looks) == before
    assert [each.getMessage() for each in caplog.records if each.name == "switchgear.client"] == [
        "the fleet's circuits were not loaded within 3 s; calls go on without them"
    ]


def test_threads_share_one_wait_when_kafka_is_down(make: Make, clock: Clock) -> None:
    gear = make(start_wait_s=10)
    looks = looks_of(gear)
    threads = [threading.Thread(target=gear.call, args=("t", int)) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(set(looks)) == 8)
    assert all(thread.is_alive() for thread in threads)
    clock.now += 10
    for thread in threads:
        thread.join(LONG_S)
    assert not any(thread.is_alive() for thread in threads), "the clock stands still for a second wait"


def test_start_does_not_wait_and_the_first_call_does(gear: Switchgear) -> None:
    assert gear.start() is False
    with pytest.raises(CircuitOpenError):
        gear.call("t", int)


def test_the_first_call_does_not_wait_when_the_circuits_are_loaded(gear: Switchgear) -> None:
    assert gear.start(wait=LONG_S)
    with pytest.raises(CircuitOpenError):
        gear.call("t", int)


def test_a_call_in_a_hook_of_the_background_does_not_wait(make: Make) -> None:
    found: list[float] = []

    def on_drop(_count: int) -> None:
        found.append(took(lambda: gear.call("t", int)))

    gear = make(start_wait_s=LONG_S, buffer_size=1, hooks=[FunctionHooks(on_drop=on_drop)])
    assert gear._emitter is not None
    for _ in range(5):
        gear._emitter.emit({"tool_name": "t", "status": "success"})
    gear.start()
    until(lambda: bool(found))
    assert found[0] < 5


def test_calls_do_not_wait_when_the_client_is_closed_before_or_meanwhile(make: Make) -> None:
    gear = make(start_wait_s=LONG_S)
    gear.close(0)
    assert took(lambda: gear.call("t", int)) < 5
    another = make(start_wait_s=LONG_S)
    caller = threading.Thread(target=another.call, args=("t", int))
    caller.start()
    until(lambda: another._begun)
    another.close(0)
    caller.join(ANSWER_S)
    assert not caller.is_alive()


def test_an_interrupted_first_call_leaves_the_wait_to_the_next(make: Make) -> None:
    gear = make(start_wait_s=LONG_S)

    def interrupt(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(InterruptedError):
            gear.call("t", int)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    heard(gear)
    with pytest.raises(CircuitOpenError):
        gear.call("t", int)


def test_the_first_call_is_allowed_in_mode_deny_once_the_circuits_are_loaded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background checks once a second what was loaded. The first call does not wait for that."""
    gear = make(start_wait_s=LONG_S, on_state_unavailable="deny")
    really, checks = gear.housekeeping.look, []

    def look() -> None:
        really()
        checks.append(1)

    monkeypatch.setattr(gear.housekeeping, "look", look)
    monkeypatch.setattr(lifetime_module, "EVERY_S", LONG_S)
    heard(gear, lambda _looks: bool(checks))
    assert gear.call("u", lambda: "called") == "called"
    assert len(checks) == 1


@pytest.mark.slow
def test_a_forked_child_waits_once_even_if_its_parent_has_loaded_the_circuits() -> None:
    code = f"""
        import os, time
        from switchgear import Switchgear
        gear = Switchgear("{NO_BROKER}", start_wait_s=3)
        gear._follower.loaded = gear._follower._read_here = True
        def took():
            began = time.monotonic()
            gear.call("t", int)
            return time.monotonic() - began
        assert took() < 3, "its circuits are loaded"
        pid = os.fork()
        if pid == 0:
            first, second = took(), took()
            print(first >= 3, second < 3, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        gear.close(0)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=True, timeout=READY_S,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True"], done.stderr


# -- calls that wait for nothing ----------------------------------------------------------------------------------------


def test_nothing_waits_without_kafka_or_in_a_fleet_in_memory() -> None:
    for servers in (None, InMemoryFleet()):
        gear = Switchgear(servers, start_wait_s=LONG_S)
        assert took(lambda: gear.call("t", int)) < 5  # noqa: B023 - called at once


@table("wrong", [-1, float("nan"), float("inf"), "10", None, True])
def test_an_invalid_start_wait_is_named(wrong: Any) -> None:
    with pytest.raises(SwitchgearError, match="start_wait_s"):
        Switchgear(NO_BROKER, start_wait_s=wrong)


def test_the_start_wait_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHGEAR_START_WAIT_S", "2.5")
    for arguments, wanted in (({}, 2.5), ({"start_wait_s": 0}, 0)):
        gear = Switchgear.from_env(**arguments)
        assert gear._start_wait_s == wanted
        gear.close(0)
    monkeypatch.setenv("SWITCHGEAR_START_WAIT_S", "soon")
    with pytest.raises(SwitchgearError, match="SWITCHGEAR_START_WAIT_S"):
        Switchgear.from_env()
