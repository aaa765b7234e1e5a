"""What stands in for a tool whose circuit refuses: with arguments of its own, each circuit asked, no circles."""

from __future__ import annotations

import inspect
import threading

import pytest

from switchgear import BreakerPolicy, CachePolicy, CallTimeoutError, CircuitOpenError, Switchgear
from switchgear.telemetry.hooks import FunctionHooks
from switchgear.testing import InMemoryFleet


def named(gear, *tools, **options):
    """Functions that say which of them was called, with what."""
    made = []
    for tool in tools:

        def call(*args, tool=tool, **kwargs):
            return tool, args, kwargs

        made.append(gear.guard(tool, **options)(call))
    return made if len(made) > 1 else made[0]


def test_chains_can_be_given_to_the_client_or_mapped_later(broken):
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1), fallbacks={"a": ["b"], "b": "c", "c": "a"}
    )
    a, *_ = named(gear, "a", "b", "c", "d")
    gear.try_acquire("a").failure(broken())
    assert a()[0] == "b"
    gear.try_acquire("b").failure(broken())
    assert a()[0] == "c"
    gear.map_fallbacks({"a": "d"})
    assert a()[0] == "d"


def test_mapped_fallbacks_hold_for_earlier_guards_and_for_calls(gear, open_circuit):
    a, _ = named(gear, "a", "b")
    open_circuit("a")
    with pytest.raises(CircuitOpenError):
        a()
    gear.map_fallbacks({"a": "b"})
    assert a()[0] == "b"
    assert gear.call("a", lambda: "never")[0] == "b"


async def test_coroutine_functions_fall_back_along_the_same_chains(gear, open_circuit):
    async def primary(x):
        return "a", x

    async def other(x):
        return "b", x

    guarded = gear.guard("a", fallback="b")(primary)
    gear.guard("b")(other)
    open_circuit("a")
    assert await guarded(1) == ("b", 1)


def test_a_circle_of_fallbacks_ends_and_if_all_are_open_the_tool_itself_is_called(gear, open_circuit):
    gear.map_fallbacks({"a": "b", "b": "c", "c": "a"})
    a, b, c = named(gear, "a", "b", "c")
    for tool in "abc":
        open_circuit(tool)
    assert (a()[0], b()[0], c()[0]) == ("a", "b", "c")


def test_a_tool_that_an_operator_forced_open_is_not_called():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    a, _ = named(gear, "a", "b", fallback=["a-twin"])
    for tool in ("a", "b", "a-twin"):
        fleet.open_circuit(tool)
    with pytest.raises(CircuitOpenError, match=r"The tool a is unavailable \(circuit forced open\)"):
        a()


def test_the_fallback_of_the_fleets_policy_is_used_if_no_other_is_named():
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=1, fallback=("b",)))
    gear = fleet.gear("planner")
    a, _ = named(gear, "a", "b")
    fleet.report("a", "error", error_class="transport")
    assert a()[0] == "b"


@pytest.mark.parametrize("by_tool", [False, True])
def test_arguments_are_adapted_for_the_fallback(gear, open_circuit, by_tool):
    def adapter(city, *, days=1):
        return (), {"q": f"{city}, {days} days"}

    a = named(gear, "a", fallback="b", adapt={"b": adapter} if by_tool else adapter)
    named(gear, "b")
    open_circuit("a")
    assert a("Oslo", days=2) == ("b", (), {"q": "Oslo, 2 days"})


def test_a_fallback_whose_adapter_fails_is_skipped_with_one_warning(gear, open_circuit, caplog):
    def adapter(*_args):
        raise KeyError("city")

    a = named(gear, "a", fallback=["b", "c"], adapt={"b": adapter})
    b, _ = named(gear, "b", "c")
    open_circuit("a")
    assert [a("Oslo")[0] for _ in range(3)] == ["c", "c", "c"]
    assert caplog.text.count("the arguments of a could not be adapted for b: KeyError: 'city'") == 1
    assert b("Oslo")[0] == "b", "its permit was not taken"


async def result_of(made):
    """Of a call of whatever kind; of a stream its items."""
    if inspect.isawaitable(made):
        return await made
    if inspect.isasyncgen(made):
        return [item async for item in made]
    return list(made) if inspect.isgenerator(made) else made


def get(city):
    return f"a {city}"


def search(q):
    return f"b {q}"


async def aget(city):
    return f"a {city}"


async def asearch(q):
    return f"b {q}"


def stream(city):
    yield f"a {city}"


def search_stream(q):
    yield f"b {q}"


async def astream(city):
    yield f"a {city}"


async def search_astream(q):
    yield f"b {q}"


KINDS = [(get, search), (aget, asearch), (aget, search), (stream, search_stream), (astream, search_astream)]


@pytest.mark.parametrize(("primary", "other"), KINDS)
async def test_a_fallback_whose_arguments_do_not_fit_is_skipped_with_one_warning(
    gear, open_circuit, caplog, primary, other
):
    a = gear.guard("a", fallback=["b", "c"])(primary)
    gear.guard("b")(other)
    open_circuit("a")
    for _ in range(2):
        with pytest.raises(CircuitOpenError) as refused:
            await result_of(a(city="Oslo"))
    assert refused.value.text.startswith("The tool a is unavailable")
    gear.guard("c")(primary)
    assert await result_of(a(city="Oslo")) in ("a Oslo", ["a Oslo"])
    assert await result_of(a("Oslo")) in ("b Oslo", ["b Oslo"])
    assert caplog.text.count("b can't stand in for a: the arguments don't fit: missing a required argument: 'q'") == 1


def test_a_cached_result_is_served_if_no_fallback_fits_and_the_refusal_is_reported_once():
    notified = []
    hooks = FunctionHooks(on_rejected=notified.append, on_fallback=lambda *_: notified.append("fallback"))
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), hooks=[hooks])
    a = gear.guard("a", fallback="b", cache=CachePolicy(ttl_s=0, stale_for_s=600))(get)
    gear.guard("b")(search)
    a(city="Oslo")
    gear.try_acquire("a").failure(ConnectionError())
    found = gear.answer(a, city="Oslo")
    assert (found.value, found.served_by, found.tool) == ("a Oslo", "cache", "a")
    assert [one.tool for one in notified] == ["a"]


def test_a_fallback_that_adapted_arguments_do_not_fit_is_skipped(gear, open_circuit, caplog):
    a = gear.guard("a", fallback="b", adapt=lambda city: ((), {"town": city}))(get)
    gear.guard("b")(search)
    open_circuit("a")
    with pytest.raises(CircuitOpenError):
        a("Oslo")
    assert "b can't stand in for a: the arguments don't fit: missing a required argument: 'q'" in caplog.text


def test_a_type_error_raised_by_the_fallback_goes_through(gear, open_circuit):
    a = gear.guard("a", fallback="b")(get)
    gear.guard("b")(lambda city: city + 1)
    open_circuit("a")
    with pytest.raises(TypeError, match="concatenate"):
        a(city="Oslo")


@pytest.mark.parametrize("wrong", [None, 3, ("only",), ([], [], [])])
def test_an_adapter_that_returns_no_arguments_counts_as_failed(gear, open_circuit, wrong, caplog):
    a = named(gear, "a", fallback="b", adapt=lambda: wrong)
    named(gear, "b")
    open_circuit("a")
    with pytest.raises(CircuitOpenError):
        a()
    assert "could not be adapted for b" in caplog.text


def test_a_synchronous_call_does_not_fall_back_on_a_coroutine(gear, open_circuit, caplog):
    async def other():
        """It is never awaited."""

    gear.guard("b")(other)
    a = named(gear, "a", fallback=["b", "c"])
    named(gear, "c")
    open_circuit("a")
    assert a()[0] == "c"
    assert "b can't stand in for a: a coroutine in place of a function" in caplog.text


def test_methods_fall_back_on_methods_with_their_object_and_on_functions_without(gear, open_circuit):
    class Client:
        @gear.guard("a", fallback="b")
        def primary(self, x):
            return "a", x

        @gear.guard("b", fallback="c")
        def second(self, x):
            return "b", self, x

        @gear.guard("d", fallback=lambda self, x: ("method", self, x))
        def with_method(self, x):
            return "d"

        @gear.guard("e", fallback=lambda x: ("function", x))
        def with_function(self, x):
            return "e"

    gear.guard("c")(lambda x: ("c", x))
    client = Client()
    for tool in "ade":
        open_circuit(tool)
    assert client.primary(1) == ("b", client, 1)
    assert client.with_method(1) == ("method", client, 1)
    assert client.with_function(1) == ("function", 1)
    open_circuit("b")
    assert client.primary(1) == ("c", 1)
    assert client.second(1) == ("c", 1)


def test_a_function_does_not_fall_back_on_a_method_that_would_lack_its_object(gear, open_circuit):
    class Client:
        @gear.guard("b")
        def second(self, x):
            return self, x

    a = named(gear, "a", fallback="b")
    open_circuit("a")
    with pytest.raises(CircuitOpenError):
        a(1)


def test_an_exception_of_the_fallback_goes_through_and_counts_against_it_alone(gear, open_circuit, broken):
    def other():
        raise broken("b is down too")

    gear.guard("b")(other)
    a = named(gear, "a", fallback="b")
    open_circuit("a")
    for _ in range(2):
        with pytest.raises(broken, match="b is down too"):
            a()
    assert gear.is_open("b")


def test_hooks_and_events_name_the_fallback():
    notified = []
    fleet = InMemoryFleet()
    gear = fleet.gear(
        "planner",
        hooks=[
            FunctionHooks(
                on_rejected=lambda refusal: notified.append(("rejected", refusal.tool)),
                on_fallback=lambda refusal, tool: notified.append(("fallback", refusal.tool, tool)),
            )
        ],
    )
    a, _ = named(gear, "a", fallback="b"), named(gear, "b")
    fleet.open_circuit("a")
    a()
    gear.flush()
    assert notified == [("rejected", "a"), ("fallback", "a", "b")]
    (refused,) = [event for event in fleet.events() if event["status"] == "rejected"]
    assert (refused["served_by"], refused["fallback_tool"]) == ("fallback", "b")


def test_a_refusal_is_reported_once(gear):
    notified = []
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1), hooks=[FunctionHooks(on_rejected=notified.append)]
    )
    gear.try_acquire("a").failure(ConnectionError())
    with pytest.raises(CircuitOpenError):
        gear.call("a", print)
    assert not gear.try_acquire("a")
    with pytest.raises(CircuitOpenError), gear.permit("a"):
        pytest.fail("not entered")
    assert len(notified) == 3


@pytest.mark.slow
def test_a_fallback_tool_has_its_own_time_limit_usage_and_classification(gear, open_circuit):
    go_on = threading.Event()

    @gear.guard("b", timeout=0.5, usage=lambda _result: 7, classify_result=lambda result: "server" if result else None)
    def other(result, pause=0.0):
        go_on.wait(pause)
        return result

    a = named(gear, "a", fallback="b", timeout=60, usage=lambda _result: 1)
    open_circuit("a")
    with gear.session() as session:
        session_circuit_of_a(gear)
        assert a(None) is None
        assert session.status().tokens == 7
        with pytest.raises(CallTimeoutError, match=r"b did not answer within 0\.5 s"):
            a(None, pause=30)
        go_on.set()
        assert a("x") == "x"
        assert session.status().failures == 4, "two of a, the timeout, and the result that b's rule calls a failure"
    assert other is not None


def session_circuit_of_a(gear):
    for _ in range(2):
        gear.try_acquire("a").failure(ConnectionError())
