"""A client's arguments are checked where they are given: the message names the argument, what was given and the way out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from switchgear import (
    BreakerPolicy,
    CircuitFollower,
    Emitter,
    FunctionHooks,
    Hooks,
    KafkaConnection,
    OptionError,
    Switchgear,
    SwitchgearError,
)
from switchgear.telemetry.hooks import HookList
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_schemas.plain_policy import PlainPolicy
from tests.support.table import table

POLICY = BreakerPolicy(consecutive_failures=1)


async def later(*_: object) -> Any:
    return None


def generator(*_: object) -> Any:
    yield


WRONG: list[tuple[str, object]] = [
    ("local_policies", 5),
    ("local_policies", "search"),
    ("local_policies", [POLICY]),
    ("local_policies", BreakerPolicy),
    ("local_policies", {"a": 5}),
    ("local_policies", {"a": {"consecutive_failures": 3}}),
    ("local_policies", {"consecutive_failures": 3}),
    ("local_policies", {5: POLICY}),
    ("local_policies", later),
    ("classify", 5),
    ("classify", "tool"),
    ("classify", later),
    ("redact", 5),
    ("redact", "x"),
    ("redact", generator),
    ("service", 3),
    ("service", None),
    ("defaults", {"timeout": 5}),
    ("defaults", 5),
    ("timed_threads", 0),
    ("timed_threads", "4"),
    ("timed_threads", None),
    ("timed_threads", 1.5),
    ("timed_threads", True),
    ("parameters_key", "a secret"),
    ("parameters_key", b""),
    ("parameters_key", b"k" * 65),
    ("hooks", None),
    ("hooks", "x"),
    ("hooks", Hooks()),
    ("hooks", FunctionHooks()),
    ("hooks", [print]),
    ("hooks", [FunctionHooks]),
    ("clock", 5),
    ("clock", time.monotonic),
    ("clock", FakeClock),
]
WRONG_WITH_KAFKA: list[tuple[str, object]] = [
    *(
        (name, value)
        for name in ("probe_wait", "fleet_silence")
        for value in (-1, "x", None, float("nan"), True, 1e300, 10**400)
    ),
    ("fleet_silence", float("inf")),
    ("state_max_age_s", "9"),
    ("state_max_age_s", 1),
    ("state_max_age_s", float("nan")),
    ("on_state_unavailable", "remote"),
    ("on_state_unavailable", ["local"]),
    ("topic_prefix", None),
    ("topic_prefix", "a b"),
    ("topic_prefix", "x" * 300),
    ("buffer_size", 0),
    ("buffer_size", "9"),
    ("buffer_size", 9.5),
    ("compression", "brotli"),
    ("compression", 5),
    ("compression", ["gzip"]),
    ("exit_timeout", -1),
    ("exit_timeout", "2"),
    ("spool_dir", 5),
    ("spool_dir", ""),
    ("spool_bytes", -1),
    ("spool_bytes", "1 GB"),
    ("spool_fsync", "yes"),
]
NO_SERVERS: list[object] = [
    "", ",", "a:9092,", "localhost:abc", "localhost:", ":9092", "localhost:0", "localhost:70000", "kafka://x", "kafka://x:9092",
    "a b:9092", "me@x:9092", "a:9092;b:9092", "a:b:c", "[::1", "[::1]9092", "x\n:9092", ["a:1"], ("a:1",), 9092, b"a:1", True,
    {"a": 1}, KafkaConnection, InMemoryFleet,
]  # fmt: skip


def ids(value: object) -> str:
    return value if isinstance(value, str) and len(value) < 40 else type(value).__name__


@table(("name", "value"), WRONG, ids=ids)
def test_rejects_an_impossible_argument_and_names_it(name: str, value: object) -> None:
    with pytest.raises(SwitchgearError, match=name) as caught:
        Switchgear.local(**{name: value})
    assert len(str(caught.value)) < 400


@table(("name", "value"), [*WRONG, *WRONG_WITH_KAFKA], ids=ids)
def test_a_connected_client_rejects_an_impossible_argument_and_names_it(name: str, value: object) -> None:
    for servers in ("127.0.0.1:1", InMemoryFleet()):
        with pytest.raises(SwitchgearError, match=name):
            Switchgear(servers, **{name: value})  # type: ignore[arg-type]


@table("servers", NO_SERVERS, ids=repr)
def test_rejects_an_impossible_address_of_a_broker(servers: Any) -> None:
    with pytest.raises(SwitchgearError, match="bootstrap_servers"):
        Switchgear(servers)
    for make in (Emitter, CircuitFollower):
        with pytest.raises(SwitchgearError, match=r"bootstrap_servers|connection"):
            make(servers)


@table("servers", ["kafka", "a:9092, b:9093", "127.0.0.1:1", "[::1]:9092", "[::1]", "::1", "kafka_1:9092"])
def test_accepts_the_addresses_that_kafka_clients_accept(servers: str) -> None:
    assert Switchgear(servers).close(0)
    assert KafkaConnection(servers).bootstrap_servers == servers


def test_rejects_an_unknown_security_protocol() -> None:
    with pytest.raises(SwitchgearError, match="security_protocol"):
        KafkaConnection("a:1", "TLS")


@table(
    ("name", "value"),
    [
        *((name, value) for name, value in WRONG_WITH_KAFKA if name in {"topic_prefix", "buffer_size", "compression"}),
        *((name, value) for name, value in WRONG_WITH_KAFKA if name.startswith("spool")),
        ("service", 3),
        ("linger_s", -1),
        ("in_flight", 0),
        ("exit_timeout", "2"),
    ],
    ids=ids,
)
def test_an_emitter_rejects_an_impossible_argument_and_names_it(name: str, value: object) -> None:
    with pytest.raises(SwitchgearError, match=name):
        Emitter("127.0.0.1:1", **{name: value})  # type: ignore[arg-type]


def test_the_error_for_an_impossible_argument_says_what_to_do() -> None:
    with pytest.raises(OptionError, match=r"hooks=\[MyHooks\(\)\]"):
        Switchgear.local(hooks=FunctionHooks())
    with pytest.raises(OptionError, match="an instance of Hooks"):
        Switchgear.local(hooks=[FunctionHooks])
    with pytest.raises(OptionError, match=r"FunctionHooks\(on_transition"):
        Switchgear.local(hooks=[print])
    with pytest.raises(SwitchgearError, match="a:9092,b:9092"):
        Switchgear(["a:9092", "b:9092"])  # type: ignore[arg-type]


def test_the_secret_is_not_in_the_message() -> None:
    with pytest.raises(OptionError) as caught:
        Switchgear.local(parameters_key="hunter2")
    assert "hunter2" not in str(caught.value)


def test_accepts_every_form_of_local_policies() -> None:
    for policies in (None, POLICY, PlainPolicy(), {}, {"a": POLICY}, lambda _tool: POLICY):
        assert Switchgear.local(local_policies=policies).call("a", int) == 0


@table("tool", [None, "", 5, [], len, "\ud800", "x" * 10_000], ids=lambda tool: ascii(tool)[:20])
async def test_every_way_to_ask_rejects_an_impossible_name_of_a_tool(tool: Any) -> None:
    gear = Switchgear.local()
    for ask in (gear.try_acquire, gear.is_open, gear.permit):
        for _ in range(2):
            with pytest.raises(SwitchgearError, match=r"[Tt]ool"):
                ask(tool)
    with pytest.raises(SwitchgearError, match=r"[Tt]ool"):
        await gear.atry_acquire(tool)
    assert gear._decision.local.all_now() == []


# -- policies from a function ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [lambda _: None, lambda _: {}["x"], lambda _: BreakerPolicy], ids=["none", "fails", "class"]
)
def test_a_policy_function_that_fails_is_logged_and_the_default_policy_decides(
    function: Callable[[str], Any], caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    tool = request.node.name  # what is logged is logged once a minute and tool
    gear = Switchgear.local(local_policies=function)
    for _ in range(5):
        permit = gear.try_acquire(tool)
        assert permit
        permit.failure(ConnectionError())
    assert not gear.try_acquire(tool), "the default: five in a row"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert tool in record.getMessage()


def test_impossible_policies_of_a_session_are_rejected() -> None:
    gear = Switchgear.local()
    for wrong in (5, "x", {"x": 5}):
        with pytest.raises(SwitchgearError, match="policies"):
            gear.session("s", policies=wrong)  # type: ignore[arg-type]


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_rejects_a_coroutine_function_as_a_hook() -> None:
    class DeferredResult(Hooks):
        async def on_drop(self, count: int) -> None:  # type: ignore[override]
            await asyncio.sleep(0)

    class LaterStill:
        async def __call__(self, *_: object) -> None:
            pass

    with pytest.raises(OptionError, match=r"on_drop of hooks\[0\] .*leave out the async"):
        HookList([DeferredResult()])
    for wrong in (later, LaterStill(), generator, 5, "x"):
        with pytest.raises(OptionError, match="on_transition"):
            FunctionHooks(on_transition=wrong)  # type: ignore[arg-type]
