"""Two gateways give permits for one tool. Kafka and the worker are real."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer

from switchgear import Switchgear
from switchgear_cli.topics import ensure_topics
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token
from tests.support.gateway_app import GatewayClient, KafkaSubmit, gateway
from tests.support.limits import HAPPEN_S
from tests.support.processes import switchgear

TOOL = "mcp:weather:get_forecast"
PROBES = 3
WAIT_S, LEASE_S = 2, 8
POLICY = f"""[default]
consecutive_failures = 5
failure_rate_threshold = "off"
cusum = "off"
minimum_reporters = 1
wait_duration_in_open_state_s = {WAIT_S}
backoff_multiplier = 1
permitted_number_of_calls_in_half_open_state = {PROBES}
success_threshold_to_close = {PROBES}
max_wait_duration_in_half_open_state_s = {LEASE_S}
"""


class Gateways:
    """Two gateways, and for each a client with the role ``emit`` and one without."""

    def __init__(self, settings, gears, submit):
        self.settings = settings
        emitter, reader = new_token("agent", [Role.EMIT]), new_token("dashboard", [Role.READ])
        apps = [gateway(gear, submit, tokens=[emitter[0], reader[0]], lifetime_s=60) for gear in gears]
        self.first, self.second = (GatewayClient(app, token=emitter[1], address="10.0.0.9") for app in apps)
        self.reader = GatewayClient(apps[1], token=reader[1], address="10.0.0.9")
        self.short = GatewayClient(gateway(gears[0], submit, lifetime_s=0.05))

    async def until(self, answers, client, tool, *, limit_s=HAPPEN_S):
        """Ask until an answer is as wanted, and return it. Calls that are permitted meanwhile are never reported."""
        async with asyncio.timeout(limit_s):
            while not answers(answer := await client.decide(tool)):  # noqa: ASYNC110 - another process answers
                await asyncio.sleep(0.1)
        return answer

    async def outage(self, tool):
        """Report errors at the first gateway until the second refuses the tool."""
        for _ in range(5):
            await self.first.call(tool, "error", error_type="ConnectionError", error_message="refused", duration_ms=5)
        return await self.until(lambda answer: not answer["allowed"], self.second, tool)

    async def events(self, tool):
        """Return the executions of a tool in the log, and the ids of those that are marked as resent."""
        reader = AIOKafkaConsumer(
            self.settings.topics.executions, **self.settings.kafka.options(), auto_offset_reset="earliest"
        )
        await reader.start()
        found, marked = [], []
        try:
            while got := await reader.getmany(timeout_ms=2_000):
                for message in itertools.chain.from_iterable(got.values()):
                    event = json.loads(message.value)
                    if event["tool_name"] == tool and event["status"] != "rejected":
                        found.append(event)
                        marked += [event["metric_id"]] if message.headers else []
        finally:
            await reader.stop()
        return found, marked


@pytest.fixture(scope="module")
def running(kafka, tmp_path_factory):
    """The settings of a running worker, and the clients of two gateways."""
    folder = tmp_path_factory.mktemp("gateways")
    file = folder / "policies.toml"
    file.write_text(POLICY)
    settings = kafka.settings(policy_file=file)
    with ThreadPoolExecutor(1) as pool:  # a thread without an event loop
        pool.submit(asyncio.run, ensure_topics(settings)).result()
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(switchgear("worker", log=folder / "worker.log", settings=settings))
        gears = [
            stack.enter_context(
                Switchgear(settings.kafka, topic_prefix=settings.topic_prefix, service="gateway", probe_wait=5)
            )
            for _ in range(2)
        ]
        worker.wait_for_output("ready  ")
        for gear in gears:
            assert gear.start(HAPPEN_S)
        yield settings, gears


@pytest.fixture
async def gateways(running):
    settings, gears = running
    async with KafkaSubmit(settings) as submit:
        yield Gateways(settings, gears, submit)


async def test_two_gateways_share_the_circuits_the_probes_and_the_permits(gateways):
    first, second = gateways.first, gateways.second
    refused = await gateways.outage(TOOL)
    assert (refused["state"], refused["source"], refused["last_error"]) == (
        "open", "fleet", "ConnectionError: refused",
    )  # fmt: skip
    assert refused["toolFailure"]["code"] == "circuit_open"

    # Nobody reports the first probe. Its lease ends, and the next request gets a probe again.
    lost = await gateways.until(lambda answer: answer["allowed"], first, TOOL)
    assert lost["probe"]
    assert 0 < lost["expires_in_s"] <= LEASE_S + 0.5
    await asyncio.sleep(LEASE_S)

    # A gateway holds one lease at a time. Both hold one, and refuse all other calls until an outcome came to the other gateway.
    probes = [await gateways.until(lambda answer: answer["allowed"], client, TOOL) for client in (first, second)]
    answers = [await client.decide(TOOL) for client in (first, second) * 3]
    assert [answer["state"] for answer in answers] == ["half_open"] * 6
    assert await second.outcome(probes[0]["permit"], duration_ms=1) == 204
    probes.append(await gateways.until(lambda answer: answer["allowed"], first, TOOL))
    assert [probe["probe"] for probe in probes] == [True] * PROBES
    for client, probe in zip((first, second), probes[1:], strict=True):
        assert not (await first.decide(TOOL))["allowed"]
        assert await client.outcome(probe["permit"], duration_ms=1) == 204
    for client in (first, second):
        answer = await gateways.until(lambda each: each["allowed"], client, TOOL)
        assert not answer["probe"]


async def test_an_outcome_counts_once_wherever_and_however_often_it_comes(gateways):
    tool = "once"
    permits = [(await gateways.first.decide(tool))["permit"] for _ in range(4)]
    for permit in permits:
        assert await gateways.first.outcome(permit, "error") == 204
        assert await gateways.first.outcome(permit, "error") == 204  # this gateway has sent it
        assert await gateways.second.outcome(permit, "error", resent=True) == 204  # it may have been sent
    events, marked = await gateways.events(tool)
    assert len(events) == 8
    assert len({event["metric_id"] for event in events}) == len(set(marked)) == 4
    assert {event["emitter_id"] for event in events} == {"agent@10.0.0.9"}
    # Four failures counted, so the fifth opens the circuit: no earlier one, and no later one.
    assert (await gateways.second.decide(tool))["allowed"]
    fifth = await gateways.first.decide(tool)
    assert await gateways.first.outcome(fifth["permit"], "error") == 204
    await gateways.until(lambda answer: not answer["allowed"], gateways.second, tool)


async def test_no_outcome_of_a_wrong_client_or_permit_reaches_the_log(gateways):
    tool = "closed to others"
    permit = (await gateways.first.decide(tool))["permit"]
    assert await gateways.reader.outcome(permit) == 403
    assert (await gateways.reader.post("/v1/decide", tool=tool)).status_code == 403
    assert await gateways.second.outcome(permit[:-4] + "AAAA") == 404
    expired = (await gateways.short.decide(tool))["permit"]
    await asyncio.sleep(0.1)
    assert await gateways.second.outcome(expired) == 404
    assert await gateways.events(tool) == ([], [])
