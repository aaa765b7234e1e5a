"""The Python SDK over a real gateway process, beside processes over Kafka: one circuit for all, and no event lost in silence."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.guard.rejections import Rejection
from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.headers import RESENT
from switchgear_schemas.ids import mint_metric_id
from tests.support.limits import HAPPEN_S
from tests.support.processes import switchgear
from tests.support.recovering import two_probes
from tests.support.running_gateway import running_gateway
from tests.support.sinking import read_topic
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

LIMIT_S = HAPPEN_S
WAIT_S = 5.0
"""Longer than the way of a record on a busy machine: later an open circuit lets a probe through."""
PROBE_S = 1.0
"""Then a request without an answer is repeated."""
POLICY = f"""[default]
consecutive_failures = 3
minimum_reporters = 1
wait_duration_in_open_state_s = {WAIT_S}
permitted_number_of_calls_in_half_open_state = 2
success_threshold_to_close = 2
"""
NO_LOCAL = BreakerPolicy(mode="disabled")
EVENTS = 3_000


@pytest.fixture(scope="module")
def worker(gateway_settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("worker")
    (folder / "policies.toml").write_text(POLICY)
    settings = gateway_settings.model_copy(
        update={"policy_file": folder / "policies.toml", "worker_http": "127.0.0.1:0"}
    )
    with switchgear("worker", log=folder / "worker.log", settings=settings) as child:
        child.wait_for_output(" ready", LIMIT_S)
        yield child


def state(gear, tool):
    view = gear.circuits().get(tool)
    return "closed" if view is None else view.state


def test_a_circuit_that_a_process_over_kafka_opens_is_refused_over_the_gateway_and_both_share_its_probes(
    gateway, gateway_settings, tokens, worker
):
    options = {"local_policies": NO_LOCAL, "probe_wait": PROBE_S, "start_wait_s": LIMIT_S}
    tool = "shared:one"
    with (
        Switchgear(gateway_settings.kafka, topic_prefix=gateway_settings.topic_prefix, **options) as over_kafka,
        Switchgear(gateway.url, token=tokens["emitter"], service="http", **options) as over_http,
    ):
        gears = (over_kafka, over_http)
        assert over_http.start(LIMIT_S)
        for _ in range(3):
            over_kafka.try_acquire(tool).failure(ConnectionError("away"))
        until(lambda: state(over_http, tool) == "open", LIMIT_S)
        refused = over_http.try_acquire(tool)
        assert isinstance(refused, Rejection)
        assert (refused.source, refused.last_error) == ("fleet", "ConnectionError: away")
        time.sleep(WAIT_S)
        probes = two_probes(over_http, over_kafka, tool)  # the request of the process over the gateway opens the way
        assert [probe.lease_id is not None for probe in probes] == [True, True]
        assert all(isinstance(gear.try_acquire(tool), Rejection) for gear in gears)
        for probe in probes:
            probe.success()
        until(lambda: {state(gear, tool) for gear in gears} == {"closed"}, LIMIT_S)
        assert worker.alive


def test_a_tenants_service_follows_and_probes_the_tools_that_it_calls_and_learns_of_no_others(
    gateway, gateway_settings, tokens, worker
):
    options = {"local_policies": NO_LOCAL, "probe_wait": PROBE_S, "start_wait_s": LIMIT_S}
    tool, secret = "shared:two", "globex:secret"
    with (
        Switchgear(gateway_settings.kafka, topic_prefix=gateway_settings.topic_prefix, **options) as globex,
        Switchgear(gateway.url, token=tokens["acme"], service="acme", **options) as acme,
    ):
        assert acme.start(LIMIT_S)
        acme.try_acquire(tool).success()
        assert acme.flush(LIMIT_S)
        for _ in range(3):
            for each in (secret, tool):
                globex.try_acquire(each).failure(ConnectionError("of globex"))
        until(lambda: state(acme, tool) == "open" and state(globex, secret) == "open", LIMIT_S)
        refused = acme.try_acquire(tool)
        assert isinstance(refused, Rejection)
        assert (refused.source, refused.reason, refused.last_error) == ("fleet", "consecutive_failures", None)
        assert set(acme.circuits()) == {tool}
        time.sleep(WAIT_S)
        probes = two_probes(acme, globex, tool)
        assert [probe.lease_id is not None for probe in probes] == [True, True]
        for probe in probes:
            probe.success()
        until(lambda: {state(gear, tool) for gear in (acme, globex)} == {"closed"}, LIMIT_S)


def test_gateways_that_are_killed_lose_no_event_and_copies_are_marked(gateway_settings, tokens, tmp_path):
    update = {"gateway_http": f"127.0.0.1:{any_free_port()}", "gateway_otlp_grpc": None}
    settings = gateway_settings.model_copy(update=update)
    ids = [mint_metric_id() for _ in range(EVENTS)]
    gear = Switchgear(f"http://{settings.gateway_http}", token=tokens["emitter"], service="killed")

    def emit() -> None:
        for each in ids:
            gear._emitter.emit(
                {"tool_name": "killed:one", "status": "success", "execution_time_ms": 1, "metric_id": each}
            )
            time.sleep(0.002)

    emitting = threading.Thread(target=emit)
    for number in range(3):
        with running_gateway(settings, tmp_path / f"gateway-{number}.log") as gateway:
            if not number:
                emitting.start()
            before = gear.status().emitter.acknowledged
            until(lambda: gear.status().emitter.acknowledged > before + 100 or not emitting.is_alive(), LIMIT_S)  # noqa: B023
            if number == 2:
                emitting.join()
                assert gear.flush(LIMIT_S)
            else:
                gateway.child.kill9()
    status = gear.status().emitter
    gear.close(1)
    assert (status.acknowledged, status.dropped, status.failed) == (EVENTS, 0, 0)
    copies: Counter[str] = Counter()
    for record in asyncio.run(read_topic(settings, settings.topics.executions)):
        event = json.loads(record.value)
        if event["tool_name"] == "killed:one":
            copies[event["metric_id"]] += 1
            assert copies[event["metric_id"]] == 1 or dict(record.headers).get(RESENT) == b"1"
    assert copies.keys() == set(ids)
