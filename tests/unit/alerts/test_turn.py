"""A turn: what it takes from Kafka, and what it keeps while the disk or a receiver fails."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from aiokafka.structs import TopicPartition

from switchgear_alerts import engine as engine_module
from switchgear_alerts import turn as turn_module
from switchgear_alerts.dead_letters import DeadLetterFile
from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.metrics import AlertsMetrics
from switchgear_alerts.turn import Turn
from tests.support.alert_values import alerts_file
from tests.support.alerting import circuit_record
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S
from tests.support.waiting import holds_within

PARTITION = TopicPartition("circuits", 0)
RULES = '[[routes]]\nreceivers = ["hook"]\n[grouping]\nwait = "0s"\nstorm_interval = "0s"\n[flapping]\nopens = 0\n'


class Consumer:
    """The parts of a consumer that a turn uses."""

    def __init__(self, end):
        self.end, self.at, self.stopped = end, 0, set()

    async def end_offsets(self, partitions):
        return dict.fromkeys(partitions, self.end)

    def seek(self, _partition, offset):
        self.at = offset

    def assignment(self):
        return {PARTITION}

    async def position(self, _partition):
        return self.at

    def highwater(self, _partition):
        return self.at

    def pause(self, *partitions):
        self.stopped.update(partitions)

    def resume(self, *partitions):
        self.stopped.difference_update(partitions)

    def paused(self):
        return set(self.stopped)

    def fetch(self, *records):
        """Return records as they are fetched, from the position on."""
        found = [
            SimpleNamespace(offset=self.at + place, key=each.circuit_id.encode(), value=each.to_bytes(), headers=())
            for place, each in enumerate(records)
        ]
        self.at += len(found)
        return {PARTITION: found}


class State:
    """The alerts topic, in memory."""

    def __init__(self):
        self.saved = {}

    async def load(self):
        return {}, {}

    async def save(self, changed, _offsets):
        self.saved |= changed


class Hook:
    """A receiver that takes everything while it is there."""

    renew_every_s = None

    def __init__(self):
        self.there, self.told = True, []

    async def send(self, message):
        if not self.there:
            raise DeliveryError("away")
        self.told += [(change.kind, change.incident) for change in message.changes]
        return "ok"


@pytest.fixture
async def turn(tmp_path):
    """A turn whose circuits topic had one record at its start."""
    hook, consumer, rules = Hook(), Consumer(end=1), alerts_file(RULES)
    one = Turn(rules, {"hook": hook}, State(), DeadLetterFile(tmp_path / "dead"), AlertsMetrics(rules.receivers))
    await one.begin(consumer, [PARTITION])
    yield one, consumer, hook
    await one.end()


async def step_until(turn, consumer, condition):
    for _ in range(500):
        await turn.step(consumer, {})
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_circuit_that_was_open_at_the_first_start_and_closes_in_the_same_poll_has_no_open_incident(turn):
    one, consumer, _ = turn
    await one.step(consumer, consumer.fetch(circuit_record("search", "open", 1), circuit_record("search", "closed", 2)))
    assert one._engine.open_incidents == 0


async def test_records_after_the_first_start_are_incidents_also_if_they_come_with_older_ones(turn):
    one, consumer, hook = turn
    records = [circuit_record("old", "open", 1), circuit_record("old", "closed", 2)]
    await one.step(
        consumer, consumer.fetch(*records, circuit_record("new", "open", 1), circuit_record("new", "closed", 2))
    )
    assert await step_until(one, consumer, lambda: len(hook.told) == 4)
    for circuit in ("old", "new"):
        assert [kind for kind, incident in hook.told if incident == f"{circuit}@1"] == ["opened", "resolved"]


@pytest.mark.slow
async def test_while_the_disk_is_full_what_is_given_up_is_kept_and_no_more_is_read(turn, monkeypatch, tmp_path):
    monkeypatch.setattr(engine_module, "MOST_WAITING", 3)
    monkeypatch.setattr(engine_module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(turn_module, "_BURY_AGAIN_S", 0.0)
    one, consumer, hook = turn
    hook.there = False
    (tmp_path / "dead").write_text("")  # a file where the folder should be
    await one.step(consumer, consumer.fetch(circuit_record("first", "open", 1)))
    await one.step(consumer, consumer.fetch(*[circuit_record(f"a-{each}", "open", 1) for each in range(4)]))
    assert await step_until(one, consumer, lambda: one._engine.given_up)
    await one.step(consumer, consumer.fetch(*[circuit_record(f"b-{each}", "open", 1) for each in range(4)]))
    assert consumer.paused() == {PARTITION}
    assert len(one._engine.given_up) == 1

    (tmp_path / "dead").unlink()
    assert await step_until(one, consumer, lambda: not consumer.paused())
    assert await holds_within(lambda: len((tmp_path / "dead" / "dead.jsonl").read_text().splitlines()) == 2, ANSWER_S)


async def test_what_waits_is_also_sent_after_the_clock_of_the_machine_went_back(tmp_path, monkeypatch):
    hook, consumer, rules = Hook(), Consumer(end=0), alerts_file(RULES.replace('wait = "0s"', 'wait = "1s"'))
    one = Turn(rules, {"hook": hook}, State(), DeadLetterFile(tmp_path), AlertsMetrics(rules.receivers))
    await one.begin(consumer, [PARTITION])
    await one.step(consumer, consumer.fetch(circuit_record("search", "open", 1)))
    began = time.monotonic()
    clock = SimpleNamespace(time=Clock(time.time() - 7200), monotonic=Clock(began))
    monkeypatch.setattr(turn_module, "time", clock)

    def told_as_time_passes():
        clock.time.now += 0.5
        clock.monotonic.now += 0.5
        return hook.told == [("opened", "search@1")]

    assert await step_until(one, consumer, told_as_time_passes)
    assert clock.monotonic() - began < 10
    await one.end()
