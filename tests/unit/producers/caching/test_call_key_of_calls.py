"""Two calls are the same if the function, its object and its parameters are the same."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import threading
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field, SecretStr

from switchgear import CachePolicy, DuplicateCallError, Switchgear
from switchgear.caching import call_key
from tests.support.limits import HAPPEN_S
from tests.support.table import table

KEPT = CachePolicy(ttl_s=60)
NOTHING = object()


@pytest.fixture
def kept(gear):
    return gear.with_options(cache=KEPT)


def fetch(url):
    return f"page {url}"


# -- what is called ---------------------------------------------------------------------------------------------------


def test_calls_of_different_lambdas_partials_and_bound_methods_share_nothing(kept):
    assert [kept.call("fetch", lambda url=url: fetch(url)) for url in "ab"] == ["page a", "page b"]
    assert [kept.call("fetch", functools.partial(fetch, url)) for url in "ab"] == ["page a", "page b"]
    assert [kept.call("fetch", functools.partial(fetch, url=url)) for url in "ab"] == ["page a", "page b"]
    assert [kept.call("fetch", url.upper) for url in "ab"] == ["A", "B"]


def test_two_functions_under_one_tool_share_nothing(kept):
    read, listed = kept.guard("mcp:files")(lambda path: f"content of {path}"), kept.guard("mcp:files")(lambda _path: [])
    assert (read("/x"), listed("/x"), read("/x")) == ("content of /x", [], "content of /x")


def test_two_closures_of_one_function_share_nothing(kept):
    def of(user):
        @kept.guard("mail")
        def mail(number):
            return user, number

        return mail

    assert (of("ana")(1), of("bob")(1)) == (("ana", 1), ("bob", 1))


def test_results_of_a_deleted_closure_serve_no_other(kept):
    for number in range(50):
        assert kept.call("t", lambda number=number: number) == number
        gc.collect(0)


def test_function_shares_results_however_its_arguments_are_written(kept):
    calls = []

    def search(query, units="m", *, page=1):
        calls.append(query)
        return len(calls)

    guarded = kept.guard("s")(search)
    ways = [guarded(1), guarded(query=1), guarded(1, "m"), guarded(1, units="m", page=1)]
    ways += [kept.call("s", search, 1), kept.call("s", functools.partial(search, 1), page=1)]
    assert ways == [1] * 6
    assert (guarded(2), guarded(1, "km"), guarded(1, page=2)) == (2, 3, 4)


@table(
    "function",
    [
        lambda a, b=2, c=3: (a, b, c),
        lambda a, /, b=2, *, c=3: (a, b, c),
        lambda a, *b, c=3, **d: (a, b, c, d),
        lambda a, /, **d: (a, d),
        lambda *, a=1, b: (a, b),
        lambda a=NOTHING, b=2, **d: (a, b, d),
        lambda a=NOTHING, *b, **d: (a, b, d),
        lambda a=NOTHING, b=2, /, **d: (a, b, d),
        lambda: None,
    ],
)
def test_calls_are_the_same_exactly_if_the_function_sees_the_same_arguments(function):
    seen, hashed, told_apart = {}, {}, []
    keys = call_key.CallKeys(lambda args, kwargs: repr((args, sorted(kwargs.items()))), None, receiver=False)
    for args in ((), (1,), (1, 2), (2, 1), (1, 2, 3), (3,)):
        for names in ("", "a", "b", "c", "ab", "bc", "ac", "abc", "x"):
            for value in (1, 2, 3):
                kwargs = dict.fromkeys(names, value)
                try:
                    result = repr(function(*args, **kwargs))
                except TypeError:
                    result = "refused"
                key = keys.parameters(function, args, kwargs)
                assert hashed.setdefault(key, result) == result
                if result != "refused" and seen.setdefault(result, key) != key:
                    told_apart.append(result)
    rigid = inspect.signature(function).parameters.values()
    assert not told_apart or {each.kind.name for each in rigid} & {"VAR_POSITIONAL", "POSITIONAL_ONLY"}


def test_default_without_a_hash_is_left_out(kept):
    nothing, calls = object(), []

    @kept.guard("s")
    def search(query, limit=nothing, page=1):
        calls.append((query, limit is nothing, page))
        return len(calls)

    assert [search(1), search(query=1), search(1, page=1)] == [1] * 3
    assert [search(1, 5), search(1, 1), search(1, page=2)] == [2, 3, 4]


def test_arguments_that_do_not_fit_raise_the_functions_own_error(kept):
    guarded = kept.guard("s")(lambda one: one)
    for _ in range(2):
        with pytest.raises(TypeError, match="positional argument"):
            guarded(1, 2)


def test_uses_the_signature_of_a_decorators_wrapper(kept):
    def in_units_of_the_user(function):
        @functools.wraps(function)
        def wrapper(city, units=None):
            return function(city, units or user["units"])

        return wrapper

    @kept.guard("w")
    @in_units_of_the_user
    def weather(city, units="C"):
        return f"{city} in {units}"

    user = {"units": "F"}
    assert (weather("Oslo"), weather("Oslo", "C")) == ("Oslo in F", "Oslo in C")


# -- on which object --------------------------------------------------------------------------------------------------


class Tenant:
    def __init__(self, name):
        self.name = name


def clients(gear, **options):
    class Client(Tenant):
        @gear.guard("query", **options)
        def query(self, text):
            return f"{self.name}:{text}"

        @classmethod
        @gear.guard("kind", **options)
        def kind(cls):
            return cls.__name__

    class Special(Client):
        pass

    return Client, Special


def test_objects_do_not_share_the_results_of_their_methods(gear):
    client, special = clients(gear, cache=KEPT)
    one, two = client("one"), client("two")
    assert (one.query("x"), two.query("x"), one.query("x")) == ("one:x", "two:x", "one:x")
    assert (client.kind(), special.kind(), client.kind()) == ("Client", "Special", "Client")


def test_objects_share_nothing_even_if_parameters_identifies_the_call(gear):
    client, _ = clients(gear, cache=KEPT, parameters=lambda *_args: "all alike")
    assert (client("one").query("x"), client("two").query("x")) == ("one:x", "two:x")
    ask = gear.guard("w", cache=KEPT, parameters=lambda *_args: "all alike")
    one, two = ask(functools.partial(fetch, "a")), ask(functools.partial(fetch, "b"))
    assert (one(), two()) == ("page a", "page a")  # as was said

    class Asks(Tenant):
        def __call__(self):
            return self.name

        def bound(self):
            return self.name

    assert [ask(Asks(name))() for name in "cd"] == ["c", "d"]
    assert [ask(Asks(name).bound)() for name in "ef"] == ["e", "f"]


def test_calls_of_one_object_share_results(gear):
    calls = []

    class Client:
        @gear.guard("query", cache=KEPT)
        def query(self, text):
            calls.append(text)

    one = Client()
    one.query("x")
    one.query(text="x")
    assert calls == ["x"]


def test_bound_methods_given_to_call_share_by_object(kept):
    class Client(Tenant):
        def query(self, text):
            calls.append(text)
            return self.name

    calls = []
    one, two = Client("one"), Client("two")
    found = [kept.call("q", client.query, "x") for client in (one, two, one, two)]
    found += [kept.call("q", functools.partial(one.query, text="x"))]
    assert (found, calls) == (["one", "two", "one", "two", "one"], ["x", "x"])


def test_objects_do_not_share_a_call_in_flight(gear):
    entered, release, found = threading.Semaphore(0), threading.Event(), []

    class Client(Tenant):
        @gear.guard("query", single_flight=True)
        def query(self, _text):
            entered.release()
            release.wait(HAPPEN_S)
            return self.name

    clients = [Client(name) for name in "ab"]
    threads = [threading.Thread(target=lambda one=one: found.append(one.query("x"))) for one in clients]
    for thread in threads:
        thread.start()
    assert entered.acquire(timeout=HAPPEN_S)
    assert entered.acquire(timeout=HAPPEN_S)
    release.set()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert sorted(found) == ["a", "b"]


def test_object_without_weak_references_shares_nothing_and_logs_it(gear, caplog):
    class Client:
        __slots__ = ("name",)

        def __init__(self, name):
            self.name = name

        @gear.guard("query", cache=KEPT)
        def query(self, text):
            return f"{self.name}:{text}"

    assert [Client(name).query("x") for name in "aab"] == ["a:x", "a:x", "b:x"]
    assert caplog.text.count("calls of query share nothing: add __weakref__ to the __slots__") == 1


def test_objects_of_a_decorated_method_share_nothing(gear):
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    class Client(Tenant):
        @gear.guard("query", cache=KEPT)
        @logged
        def query(self, text):
            return f"{self.name}:{text}"

    assert [Client(name).query(1) for name in ("one", "two")] == ["one:1", "two:1"]


# -- with which parameters --------------------------------------------------------------------------------------------


class Query(BaseModel):
    text: str
    tenant: str = Field(default="", repr=False)


@dataclass
class ByCity:
    name: str


@dataclass
class ByUser:
    name: str


class Unknown:
    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SecretStr("ana"), SecretStr("bob")),
        (Query(text="x", tenant="a"), Query(text="x", tenant="b")),
        (ByCity("x"), ByUser("x")),
        ({1: 2}, {"1": 2}),
        (None, float("nan")),
    ],
)
def test_different_parameters_are_different_calls(gear, one, other):
    calls = []
    guarded = gear.guard("t", cache=KEPT, on_duplicate="refuse")(calls.append)
    guarded(one)
    guarded(other)
    guarded(one)
    assert len(calls) == 2


def test_call_without_a_hash_is_made_and_logs_what_to_do(gear, caplog):
    names = gear.guard("t", cache=KEPT, on_duplicate="refuse")(lambda query: query.name)
    assert [names(Unknown(name)) for name in "abcd"] == list("abcd")
    assert caplog.text.count("parameters of t have no hash: UnhashableParameterError: A value of type Unknown") == 1
    assert "Give parameters=" in caplog.text
    named = gear.guard("u", cache=KEPT, parameters=lambda query: query.name)(lambda query: query)
    first = Unknown("a")
    assert named(first) is first
    assert named(Unknown("a")) is first


def test_duplicates_of_a_method_are_counted_per_object(gear):
    client, _ = clients(gear, on_duplicate="refuse", duplicate_after=2)
    one, two = client("one"), client("two")
    assert (one.query("x"), two.query("x")) == ("one:x", "two:x")
    with pytest.raises(DuplicateCallError):
        one.query("x")


def test_hash_of_an_event_is_of_the_parameters_alone():
    gear = Switchgear.local(parameters_key=b"k")
    hashes = []
    gear._decision.reporter.report = lambda permit, _report: hashes.append(permit.parameters_hash)

    class Client(Tenant):
        @gear.guard("query")
        def query(self, text, page=1):
            return text, page

    Client("one").query("x")
    Client("two").query(text="x", page=1)
    gear.call("query", lambda text, page: (text, page), "x", 1)
    gear.call("query", functools.partial(lambda text, page: (text, page), "x"), page=1)
    assert len(set(hashes)) == 1
    assert hashes[0] is not None
    Client("one").query(Unknown("x"))
    assert hashes[-1] is None


async def test_coroutine_functions_share_results_of_the_same_call(gear):
    async def page(url, size=1):
        await asyncio.sleep(0)
        return url, size

    single = gear.with_options(single_flight=True, cache=KEPT)
    found = await asyncio.gather(
        single.acall("p", page, "a"), single.acall("p", page, url="a"), single.acall("p", functools.partial(page, "b"))
    )
    assert found == [("a", 1), ("a", 1), ("b", 1)]
    assert found[0] is found[1]
