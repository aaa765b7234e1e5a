"""Which function stands in for a tool where several agents, kinds or classes guard one name: the one that is meant, or none."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
import threading

import pytest

from switchgear import CachePolicy, CircuitOpenError, Switchgear
from switchgear.fallback import same_function
from tests.support.limits import ANSWER_S


def tools_of(gear, user, **options):
    """Two tools of one agent, which hold its user's name."""

    def primary():
        return f"a of {user}"

    def backup():
        return f"b of {user}"

    return gear.guard("a", **options)(primary), gear.guard("b")(backup)


def test_different_functions_of_one_name_do_not_stand_in_and_one_warning_says_so(gear, open_circuit, caplog):
    ana, _ = tools_of(gear, "ana", fallback="b")
    bob, _ = tools_of(gear, "bob", fallback="b")
    open_circuit("a")
    for one in (ana, ana, bob):
        with pytest.raises(CircuitOpenError) as refused:
            one()
        assert refused.value.fallback == "b", "the agent may call its own"
    assert caplog.text.count("b can't stand in for a: different functions are guarded under that name") == 1


def test_a_guarded_function_given_as_fallback_stands_in_itself(gear, open_circuit):
    def agent(user):
        last = gear.guard("c")(lambda: f"c of {user}")

        @gear.guard("b", fallback=last)
        def backup():
            return f"b of {user}"

        @gear.guard("a", fallback=backup)
        def primary():
            return f"a of {user}"

        return primary

    ana, bob = agent("ana"), agent("bob")
    open_circuit("a")
    assert (ana(), bob()) == ("b of ana", "b of bob")
    open_circuit("b")
    assert (ana(), bob()) == ("c of ana", "c of bob")
    open_circuit("c")
    assert (ana(), bob()) == ("a of ana", "a of bob"), "never eject everything"


def test_a_guarded_function_given_as_fallback_is_not_the_fallback_of_other_functions(gear, open_circuit):
    ana = gear.guard("a", fallback=gear.guard("b")(lambda: "b of ana"))(lambda: "a of ana")
    bob = gear.guard("a")(lambda: "a of bob")
    open_circuit("a")
    assert ana() == "b of ana"
    with pytest.raises(CircuitOpenError) as refused:
        bob()
    assert refused.value.fallback is None


def test_a_guarded_function_as_the_fallback_of_one_call_has_its_circuit_asked(gear, open_circuit):
    backup = gear.guard("b")(lambda: "b")
    call = gear.with_options(fallback=backup).call
    open_circuit("a")
    assert call("a", lambda: "a") == "b"
    open_circuit("b")
    assert call("a", lambda: "a") == "a"


def test_a_cached_result_is_served_if_the_guarded_fallback_is_open_too(gear, open_circuit):
    backup = gear.guard("b")(lambda _city: "b")
    primary = gear.guard("a", fallback=backup, cache=CachePolicy(ttl_s=0, stale_for_s=600))(lambda city: f"a {city}")
    assert primary("Oslo") == "a Oslo"
    open_circuit("a")
    assert gear.answer(primary, "Oslo").served_by == "fallback"
    open_circuit("b")
    assert gear.answer(primary, "Oslo").served_by == "cache"


def test_a_guarded_method_of_an_object_can_be_the_fallback(gear, open_circuit):
    class Backup:
        def __init__(self, user):
            self.user = user

        @gear.guard("b")
        def get(self, path):
            return self.user, path

    made = [gear.guard("a", fallback=Backup(user).get)(lambda path: path) for user in ("ana", "bob")]
    open_circuit("a")
    assert [one("/x") for one in made] == [("ana", "/x"), ("bob", "/x")]


def test_a_function_guarded_by_another_client_stands_in_like_any_function(gear, open_circuit):
    other = Switchgear.local()
    primary = gear.guard("a", fallback=other.guard("b")(lambda: "b"))(lambda: "a")
    open_circuit("a")
    open_circuit("b")
    assert primary() == "b"


def test_a_function_that_is_guarded_again_replaces_itself(gear, open_circuit, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = tmp_path / "reloaded_tools.py"
    module.write_text("def backup(limit=object()):\n    return 'before'\n")
    tools = importlib.import_module("reloaded_tools")
    primary = gear.guard("a", fallback="b")(lambda: "a")
    gear.guard("b")(tools.backup)
    module.write_text("def backup(limit=object()):\n    return 'after the reload'\n")
    gear.guard("b")(importlib.reload(tools).backup)
    open_circuit("a")
    assert primary() == "after the reload"


async def test_a_tool_guarded_as_function_and_coroutine_serves_each_caller_with_its_kind(gear, open_circuit):
    async def acall(name):
        await asyncio.sleep(0)
        return f"async {name}"

    sync, coroutine = (gear.guard("a", fallback="b")(one) for one in (lambda name: f"sync {name}", acall))
    gear.guard("b")(lambda name: f"sync {name}")
    gear.guard("b")(acall)
    open_circuit("a")
    assert sync("b") == "sync b"
    assert await coroutine("b") == "async b"


def test_a_method_falls_back_on_methods_of_its_own_class_alone(gear, open_circuit, caplog):
    class Base:
        @gear.guard("base")
        def base(self):
            return "base", self

        @classmethod
        @gear.guard("made")
        def made(cls):
            return "made", cls

    class Tools(Base):
        @gear.guard("a", fallback="base")
        def primary(self):
            return "a"

        @gear.guard("x", fallback="foreign")
        def to_another_class(self):
            return "x"

        @classmethod
        @gear.guard("m", fallback="made")
        def make(cls):
            return "m"

    class Foreign:
        key = "secret"

        @gear.guard("foreign")
        def get(self):
            return self.key

    tools = Tools()
    for tool in "axm":
        open_circuit(tool)
    assert tools.primary() == ("base", tools)
    assert Tools.make() == ("made", Tools)
    with pytest.raises(CircuitOpenError):
        tools.to_another_class()
    assert "foreign can't stand in for x: a " in caplog.text
    assert gear.status().local.keys() == {"a", "x", "m"}, "the foreign circuit is not to blame"
    assert Foreign().get() == "secret"


def test_functions_that_threads_guard_under_one_name_at_once_are_not_fallbacks(gear, open_circuit, caplog):
    barrier = threading.Barrier(8)

    def work(user):
        barrier.wait()
        tools_of(gear, user, fallback="b")

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    open_circuit("a")
    with pytest.raises(CircuitOpenError):
        tools_of(gear, "ana", fallback="b")[0]()
    assert "different functions" in caplog.text


# -- the same function ------------------------------------------------------------------------------------------------


def made_with(user, *, copied=False):
    def default(given=user):
        return given

    def closure():
        return user

    def nested():
        return closure()

    if copied:
        functools.update_wrapper(nested, made_with)
    return [default, closure, nested]


@pytest.mark.parametrize("copied", [False, True])
def test_closures_that_hold_different_values_are_different_functions(copied):
    ana, bob, again = made_with("ana", copied=copied), made_with("bob", copied=copied), made_with("ana", copied=copied)
    assert not any(same_function(one, other) for one in ana for other in bob)
    assert [same_function(one, other) for one, other in zip(ana, again, strict=True)] == [True] * 3


def test_methods_of_different_objects_are_different_functions():
    class Client:
        def get(self):
            """Nothing."""

        def __call__(self):
            """Nothing."""

    ana, bob = Client(), Client()
    assert same_function(ana.get, ana.get)
    assert not same_function(ana.get, bob.get)
    assert same_function(ana, ana)
    assert not same_function(ana, bob)


def test_closures_that_are_empty_or_nested_too_deep_are_different_functions():
    def endless():
        def inner():
            return inner

        return inner

    def empty():
        def early():
            return late

        yield early
        late = None
        yield late

    assert not same_function(endless(), endless())
    assert not same_function(next(empty()), next(empty()))
