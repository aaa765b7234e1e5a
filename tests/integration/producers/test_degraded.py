"""Kafka taken away and given back: each client says what decides meanwhile, and decides so."""

from __future__ import annotations

import asyncio
import functools
from contextlib import ExitStack
from pathlib import Path

import pytest

from switchgear import BreakerPolicy, CircuitFollower, Permit, Rejection, Switchgear
from switchgear.follower.view import UNAVAILABLE
from switchgear.telemetry.hooks import CircuitChange, FunctionHooks
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import load_settings
from tests.integration.producers.circuits import circuit, publish
from tests.support import waiting
from tests.support.kafka import own_kafka
from tests.support.limits import HAPPEN_S

until = functools.partial(waiting.until, seconds=HAPPEN_S)


@pytest.mark.deep
def test_every_value_of_on_state_unavailable_holds_until_the_broker_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One circuit is open in the fleet. The limits are shortened: 15 s until stale would be 15 s of waiting.

    A broker with nothing new answers after ``fetch_wait_s``, which therefore is short too.
    """
    monkeypatch.setattr("switchgear.follower.base.Follower.stale_after_s", 1.5)
    monkeypatch.setitem(CircuitFollower.__init__.__kwdefaults__, "fetch_wait_s", 0.5)
    port = any_free_port()
    settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="away.", topic_partitions=4)
    broker = own_kafka(tmp_path / "kafka", port)
    changes: list[CircuitChange] = []
    with ExitStack() as stack:
        known, local, deny = (
            stack.enter_context(
                Switchgear(
                    settings.kafka,
                    topic_prefix=settings.topic_prefix,
                    local_policies=BreakerPolicy(consecutive_failures=1),
                    on_state_unavailable=wish,
                    state_max_age_s=4.0,
                    hooks=[FunctionHooks(on_transition=changes.append)] if wish == "local" else [],
                )
            )
            for wish in ("last_known", "local", "deny")
        )
        assert [gear.status().mode for gear in (known, local, deny)] == ["loading", "loading", "deny"]
        assert isinstance(known.try_acquire("broken"), Permit), "the process alone decides until it knows more"
        refusal = deny.try_acquire("fine")
        assert isinstance(refusal, Rejection)
        assert refusal.reason == UNAVAILABLE
        broker.start()
        stack.callback(broker.stop)
        asyncio.run(ensure_topics(settings))
        asyncio.run(publish(settings, circuit("broken", "open", 1, until=600.0)))
        clients = (known, local, deny)
        until(lambda: all("broken" in gear.circuits() and gear.status().mode == "fleet" for gear in clients))
        for gear in clients:
            assert isinstance(gear.try_acquire("broken"), Rejection)
            assert isinstance(gear.try_acquire("fine"), Permit)
        broker.stop()
        until(lambda: known.status().mode == "last_known")
        assert isinstance(known.try_acquire("broken"), Rejection), "the fleet's last known state holds"
        until(lambda: local.status().mode == "local_only")
        assert isinstance(local.try_acquire("broken"), Permit), "the process has nothing against it"
        until(lambda: deny.status().mode == "deny")
        assert isinstance(deny.try_acquire("fine"), Rejection)
        until(lambda: known.status().mode == "local_only")
        assert isinstance(known.try_acquire("broken"), Permit), "too old by now"
        status = known.status()
        assert status.follower is not None
        assert status.follower.stale
        assert any("last confirmed" in sentence for sentence in status.degraded)
        with pytest.raises(ConnectionError):
            known.call("other", broken)
        assert known.is_open("other"), "its own breaker works on"
        broker.start()
        until(lambda: all(gear.status().mode == "fleet" for gear in clients))
        for gear in clients:
            assert isinstance(gear.try_acquire("broken"), Rejection), "as the fleet says"
            assert isinstance(gear.try_acquire("fine"), Permit)
        asyncio.run(publish(settings, circuit("broken", "closed", 2, until=None)))
        until(lambda: [(change.source, change.state) for change in changes][-1:] == [("fleet", "closed")])
        until(lambda: isinstance(known.try_acquire("broken"), Permit))
        assert all(gear.flush(HAPPEN_S) for gear in clients), "what was emitted meanwhile has arrived"
        assert [gear.status().background_deaths for gear in clients] == [{}, {}, {}]


def broken() -> None:
    raise ConnectionError("down")
