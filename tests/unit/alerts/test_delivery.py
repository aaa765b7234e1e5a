"""Delivery: in order, with waits between tries, and into the dead-letter file at last."""

import asyncio
import contextlib
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from switchgear_alerts.config import Retry
from switchgear_alerts.dead_letters import DeadLetterFile
from switchgear_alerts.delivery import Delivery, wait_s
from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.metrics import AlertsMetrics
from tests.support.alert_values import NOON, change, message
from tests.support.waiting import holds_within

QUICK = Retry(first="1ms", longest="5ms", give_up_after="1h")


class Place:
    """A receiver that answers as a list says, then takes everything."""

    def __init__(self, *answers, renew_every_s=None, renewal=None):
        self.answers, self.renew_every_s = list(answers), renew_every_s
        self.renewal = renewal or DeliveryError("away")
        self.asked, self.taken, self.renewed = [], [], []

    async def send(self, message):
        self.asked.append(message.id)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        self.taken.append(message.id)
        return "ok"

    async def renew(self, firing):
        self.renewed.append([change.incident for change in firing])
        raise self.renewal  # the next one comes all the same

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def delivering(place, tmp_path, retry=QUICK, now=lambda: NOON, firing=list):
    metrics = AlertsMetrics(["hook"])
    delivery = Delivery("hook", place, retry, DeadLetterFile(tmp_path), metrics, firing, now)
    task = asyncio.create_task(delivery.run())
    yield delivery, metrics
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def value(metrics, name):
    return metrics.registry.get_sample_value(f"switchgear_alerts_{name}_total", {"receiver": "hook"})


async def test_a_message_is_tried_until_it_is_taken_and_later_ones_wait(tmp_path):
    place = Place(DeliveryError("HTTP 500"), DeliveryError("HTTP 500"))
    async with delivering(place, tmp_path) as (delivery, metrics):
        for name in ("a", "b"):
            delivery.put(message(change(name)))
            delivery.put(message(change(name)))  # it is in the queue already
        assert await holds_within(lambda: len(place.taken) == 2, 5, 0.001)
        await asyncio.sleep(0)
        assert delivery.take_finished() == ["a@1:opened", "b@1:opened"]
    assert place.asked == ["a@1:opened"] * 3 + ["b@1:opened"]
    assert [value(metrics, name) for name in ("delivered", "failed", "retried", "dead")] == [2, 2, 2, 0]
    assert not (tmp_path / "dead.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("error", [DeliveryError("HTTP 404: gone", permanent=True), KeyError("a fault of ours")])
async def test_a_message_that_will_never_be_taken_goes_to_the_dead_letters_and_the_next_one_is_sent(tmp_path, error):
    place = Place(error)
    async with delivering(place, tmp_path) as (delivery, metrics):
        delivery.put(message(change("a")))
        delivery.put(message(change("b")))
        assert await holds_within(lambda: place.taken == ["b@1:opened"], 5, 0.001)
    (line,) = (tmp_path / "dead.jsonl").read_text().splitlines()
    letter = json.loads(line)
    assert (letter["receiver"], letter["id"]) == ("hook", "a@1:opened")
    assert letter["message"]["changes"][0]["incident"] == "a@1"
    assert (tmp_path / "dead.jsonl").stat().st_mode & 0o077 == 0
    assert value(metrics, "dead") == 1


async def test_a_message_is_given_up_when_it_is_too_old(tmp_path):
    place = Place(*[DeliveryError("HTTP 503")] * 3)
    async with delivering(place, tmp_path, now=lambda: NOON + 3600) as (delivery, _):
        delivery.put(message(change("old")))
        delivery.put(replace(message(change("new")), created_at=NOON + 3599))
        assert await holds_within(lambda: place.taken == ["new@1:opened"], 5, 0.001)
    assert "HTTP 503" in (tmp_path / "dead.jsonl").read_text()


async def test_a_message_is_kept_and_tried_again_while_the_disk_does_not_take_it(tmp_path):
    (tmp_path / "file").write_text("")
    place = Place(*[DeliveryError("HTTP 404", permanent=True)] * 2)
    async with delivering(place, tmp_path / "file") as (delivery, metrics):
        delivery.put(message(change("a")))
        assert await holds_within(lambda: place.taken == ["a@1:opened"], 5, 0.001)
        assert value(metrics, "dead") == 0


@pytest.mark.slow
@pytest.mark.parametrize("error", [None, UnicodeError("a fault of the file or of ours")])
async def test_open_incidents_are_sent_again_between_messages_whatever_fails(tmp_path, error):
    place = Place(renew_every_s=0.02, renewal=error)
    async with delivering(place, tmp_path, firing=lambda: [change("a")]) as (delivery, _):
        assert await holds_within(lambda: len(place.renewed) >= 2, 5, 0.001)
        delivery.put(message(change("b")))
        assert await holds_within(lambda: place.taken == ["b@1:opened"], 5, 0.001)


async def test_open_incidents_are_sent_again_while_a_message_waits_for_its_next_try(tmp_path):
    place = Place(DeliveryError("HTTP 503", retry_after_s=3600), renew_every_s=0.02)
    async with delivering(place, tmp_path, firing=lambda: [change("b")]) as (delivery, _):
        delivery.put(message(change("a")))
        assert await holds_within(lambda: len(place.renewed) >= 3, 5, 0.001)
    assert place.asked == ["a@1:opened"]


async def test_a_message_has_its_next_try_in_time_although_open_incidents_are_sent_again(tmp_path):
    place = Place(DeliveryError("HTTP 503", retry_after_s=0.1), renew_every_s=0.02)
    async with delivering(place, tmp_path, firing=lambda: [change("b")]) as (delivery, _):
        delivery.put(message(change("a")))
        assert await holds_within(lambda: place.taken == ["a@1:opened"], 5, 0.001)
    assert place.renewed


def test_waits_double_up_to_the_longest_and_honour_what_the_receiver_asks_for():
    retry = Retry(first="1s", longest="1m")
    for tries, longest in ((1, 1), (2, 2), (4, 8), (30, 60), (5000, 60)):
        assert longest / 2 <= wait_s(retry, tries, None) <= longest
    assert wait_s(retry, 1, 90.0) == 90


def test_a_full_dead_letter_file_moves_aside_so_that_two_files_bound_the_space(tmp_path, monkeypatch):
    monkeypatch.setattr("switchgear_alerts.dead_letters.MAX_BYTES", 1000)
    letters = DeadLetterFile(tmp_path)
    for _ in range(20):
        letters.write(message(change()), "HTTP 404", NOON)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dead.jsonl", "dead.jsonl.1"]
    assert all(each.stat().st_size < 3000 for each in tmp_path.iterdir())


@pytest.mark.slow
def test_several_threads_that_write_dead_letters_wait_for_each_other_also_when_the_file_moves(tmp_path, monkeypatch):
    monkeypatch.setattr("switchgear_alerts.dead_letters.MAX_BYTES", 1)
    letters = DeadLetterFile(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda _: letters.write(message(change()), "HTTP 404", NOON), range(400)):
            pass
    for file in tmp_path.iterdir():
        assert len(file.read_text().splitlines()) == 1
