"""Alerts over a real Kafka to a real receiver: nothing is lost by kill -9, by failures of the receiver or by a restart."""

import asyncio
import json
import urllib.request
from collections import defaultdict

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.support.alerting import SECRET, circuit_record, publish, receiving, without_fleet, write_rules
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import all_ended, switchgear
from tests.support.waiting import holds_within

CIRCUITS = [f"mcp:server-{number % 7}:tool-{number}" for number in range(50)]
ROUNDS = 10
FAST = '[grouping]\nwait = "0s"\nstorm = 1000\n\n[retry]\nfirst = "20ms"\nlongest = "200ms"\n\n[flapping]\nopens = 0\n'


@pytest.fixture
def start(tmp_path, make_settings):
    """``start(rules, settings)``: `switchgear alerts` in a process of its own."""
    started = []

    def make(rules, settings, *options, instance="one"):
        child = switchgear(
            "alerts", "run", "--file", str(rules), "--http", f"127.0.0.1:{any_free_port()}", *options,
            *(("--instance-id", instance) if instance else ()),
            log=tmp_path / f"alerts-{len(started)}.log", settings=settings, extra={"HOOK_SECRET": SECRET},
        )  # fmt: skip
        started.append(child)
        return child

    with all_ended():
        yield make
    with all_ended(*started):
        pass


def metrics(child):
    """The metrics of a process by name, without labels."""
    port = child.command[child.command.index("--http") + 1]
    with urllib.request.urlopen(f"http://{port}/metrics", timeout=ANSWER_S) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0].partition("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def ready(child):
    port = child.command[child.command.index("--http") + 1]
    try:
        with urllib.request.urlopen(f"http://{port}/readyz", timeout=ANSWER_S) as answer:
            return json.load(answer)["status"] == "ready"
    except OSError:
        return False


@pytest.mark.timeout(180)
async def test_each_incident_is_opened_and_resolved_in_order_though_the_process_is_killed_and_the_receiver_fails(
    start, make_settings, tmp_path
):
    settings = make_settings(data_dir=tmp_path)
    expected = set()
    with receiving(failing=0.5) as (received, url):
        rules = write_rules(tmp_path / "alerts.toml", url, FAST)
        child = start(rules, settings)
        child.wait_until(lambda: ready(child))
        kills = 0
        for number in range(ROUNDS):
            state = "closed" if number % 2 else "open"
            if state == "open":
                expected |= {f"{circuit}@{number + 1}" for circuit in CIRCUITS}
            seen = len(received.requests)
            await publish(
                settings,
                [circuit_record(each, state, number + 1, family=each.rpartition(":")[0]) for each in CIRCUITS],
            )
            await holds_within(lambda seen=seen: len(received.requests) > seen, 10)  # own limit: it goes on in any case
            child.kill9()
            kills += 1
            child = start(rules, settings)
        done = await holds_within(lambda: received.ids("resolved") == expected == received.ids("opened"), HAPPEN_S)
        assert done, (len(expected - received.ids("opened")), len(expected - received.ids("resolved")), child.output())
        assert await holds_within(lambda: metrics(child)["switchgear_alerts_incidents_open"] == 0, ANSWER_S)
    assert kills == ROUNDS
    assert received.failures > 2

    first_seen, message_of = [], defaultdict(set)
    for message_id, change in received.changes():
        if change["id"] not in message_of:
            first_seen.append(change)
        message_of[change["id"]].add(message_id)
    assert len(first_seen) == len(CIRCUITS) * ROUNDS
    assert {len(messages) for messages in message_of.values()} == {1}  # a repeated change comes in the same message
    contents = defaultdict(set)
    for message_id, body in received.requests:
        contents[message_id].add(tuple(each["id"] for each in body["data"]["incidents"]))
    assert {len(each) for each in contents.values()} == {1}  # and a repeated message has the same content
    by_circuit = defaultdict(list)
    for change in first_seen:
        by_circuit[change["circuit"]].append((change["change"], without_fleet(change["incident"])))
    for circuit, changes in by_circuit.items():
        wanted = [(kind, f"{circuit}@{number}") for number in range(1, ROUNDS, 2) for kind in ("opened", "resolved")]
        assert changes == wanted


@pytest.mark.deep
@pytest.mark.timeout(120)
async def test_a_storm_is_a_few_messages_and_a_second_process_resolves_what_closed_when_the_first_ended(
    start, make_settings, tmp_path
):
    settings = make_settings(data_dir=tmp_path)
    storm = [f"tool-{number}" for number in range(200)]
    # What was there before alerts were started: one circuit that closed again, and one that is open.
    await publish(
        settings,
        [circuit_record("closed", "open", 1), circuit_record("closed", "closed", 2), circuit_record("old", "open", 1)],
    )
    with receiving() as (received, url):
        rules = write_rules(tmp_path / "alerts.toml", url, '[grouping]\nwait = "1s"\nstorm_interval = "3s"\n')
        first = start(rules, settings, instance=None).wait_for_output("active")
        assert await holds_within(lambda: received.ids("opened") == {"old@1"}, ANSWER_S)
        second = start(rules, settings, instance=None)
        second.wait_until(lambda: ready(second))

        for at in range(0, 200, 50):
            await publish(settings, [circuit_record(each, "open", 1) for each in storm[at : at + 50]])
        assert await holds_within(lambda: len(received.ids("opened")) == 201, HAPPEN_S)
        assert len({message_id for message_id, change in received.changes() if change["circuit"] != "old"}) <= 5
        assert "closed@1" not in received.ids("opened")

        active, spare = sorted((first, second), key=lambda child: -metrics(child)["switchgear_alerts_active"])
        assert metrics(spare)["switchgear_alerts_active"] == 0
        assert metrics(active)["switchgear_alerts_incidents_open"] == 201
        assert active.terminate() == 0
        await publish(settings, [circuit_record(each, "closed", 2) for each in storm])
        assert await holds_within(lambda: len(received.ids("resolved")) == 200, HAPPEN_S), spare.output()
        resolving = {message_id for message_id, change in received.changes() if change["change"] == "resolved"}
        assert len(resolving) <= 5
        assert spare.terminate() == 0
        await asyncio.sleep(0)
