"""The page of dead letters over the real engine, without a broker: what is read and sent is that of the test."""

import asyncio
from dataclasses import replace

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_api.console import dead_letters
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_schemas.settings import Settings
from switchgear_sinks.dead.letters import StoredLetter
from switchgear_sinks.dead.retry import RetryOutcome
from switchgear_sinks.dead.topic import TooManyLettersError

START_MS = 1_700_000_000_000
RETRY = {"reason": "repaired"}


def letter(number, *, at_ms=None, written_ms=START_MS):
    executions = Settings().topics.executions
    value = b'{"tool_name":"search"}'
    arrived = START_MS + 1000 * number if at_ms is None else at_ms
    return StoredLetter(
        DeadLetter(executions, 1, number, arrived, value=value, component="sink", reason="no status"),
        0,
        number,
        written_ms,
    )


class Topic:
    """The dead letters, and who reads and sends them."""

    def __init__(self):
        self.letters = [letter(number) for number in range(10)]
        self.selections, self.sent = [], []
        self.failure = None
        self.newer = {}
        """By the place of a letter: the copy that was written later, which is found there."""

    async def read(self, _connection, _topic, selection):
        self.selections.append(selection)
        if self.failure is not None:
            raise self.failure
        if selection.place in self.newer:
            return [self.newer[selection.place]]
        return [each for each in self.letters if selection.matches(each)]

    def producer(self, *_given):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_given):
        pass

    async def send(self, letters, repairs):
        await asyncio.sleep(0.05)
        if self.failure is not None:
            raise self.failure
        for each in letters:
            self.sent.append(repairs.get(each.key, each.letter.body))
            self.letters.remove(each)
            yield RetryOutcome(each)


@pytest.fixture
def topic(monkeypatch):
    found = Topic()
    monkeypatch.setattr(dead_letters, "read_letters", found.read)
    monkeypatch.setattr(dead_letters, "Retry", found.producer)
    return found


@pytest.fixture
async def http(store, topic):
    app = create_app(store, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as found:
        yield found


async def audited(http):
    return [(each["subject"], each["outcome"]) for each in (await http.get("/v1/audit")).json()["items"]]


async def test_pages_go_on_where_they_were_when_the_last_letter_of_a_page_was_sent_again(http, topic):
    first = (await http.get("/v1/dead-letters", params={"limit": 4})).json()
    assert [each["id"] for each in first["items"]] == ["0-9", "0-8", "0-7", "0-6"]
    assert (await http.post("/v1/dead-letters/0-6/retry", json=RETRY)).status_code == 200
    second = (await http.get("/v1/dead-letters", params={"limit": 4, "after": first["next"]})).json()
    assert [each["id"] for each in second["items"]] == ["0-5", "0-4", "0-3", "0-2"]
    last = (await http.get("/v1/dead-letters", params={"limit": 4, "after": second["next"]})).json()
    assert ([each["id"] for each in last["items"]], last["next"], last["total"]) == (["0-1", "0-0"], None, 9)
    for after in ("0-6", "x", "1-2-3-4", "1-2-" + "9" * 40):
        assert (await http.get("/v1/dead-letters", params={"after": after})).status_code == 400


async def test_only_the_selected_letters_are_read_and_one_letter_alone(http, topic):
    assert (await http.get("/v1/dead-letters", params={"tool": "mail"})).json()["total"] == 0
    assert (await http.get("/v1/dead-letters", params={"tool": "search"})).json()["total"] == 10
    assert (await http.get("/v1/dead-letters/0-3")).json()["id"] == "0-3"  # one of the list
    assert [each.tool for each in topic.selections] == ["mail", "search"]
    assert (await http.post("/v1/dead-letters/0-3/retry", json=RETRY)).status_code == 200
    assert (await http.get("/v1/dead-letters/0-4")).json()["id"] == "0-4"
    assert [each.place for each in topic.selections[2:]] == [(0, 3), (0, 4)]
    assert (await http.get("/v1/dead-letters/0-04")).status_code == 404


async def test_letter_that_is_written_again_while_it_is_open_is_sent_under_the_id_that_it_had(http, topic):
    assert (await http.get("/v1/dead-letters/0-3")).json()["id"] == "0-3"
    topic.letters[3] = topic.newer[0, 3] = replace(letter(3), offset=10)
    answer = await http.post("/v1/dead-letters/0-3/retry", json=RETRY)
    assert (answer.status_code, topic.sent) == (200, [letter(3).letter.body])
    assert await audited(http) == [("0-3", "applied")]


async def test_too_many_letters_are_an_answer_that_says_how_to_narrow_them(http, topic):
    topic.failure = TooManyLettersError("There are more dead letters than can be handled at once.", hint="--tool")
    answer = await http.get("/v1/dead-letters")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "?tool=" in answer.json()["hint"]


async def test_brokers_that_do_not_deliver_in_time_are_not_taken_for_clickhouse(http, topic):
    topic.failure = TimeoutError()
    answer = await http.get("/v1/dead-letters")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("Kafka did not deliver the dead letters")


@pytest.mark.parametrize("moment_ms", [10**18, -(2**63), 2**63 - 1])
async def test_letter_with_an_impossible_time_does_not_hide_the_others(http, topic, moment_ms):
    topic.letters.append(letter(77, at_ms=moment_ms, written_ms=moment_ms))
    found, after = [], None
    for _ in range(6):
        page = (
            await http.get("/v1/dead-letters", params={"limit": 2} | ({} if after is None else {"after": after}))
        ).json()
        found += [each["id"] for each in page["items"]]
        after = page["next"]
    assert (len(set(found)), after) == (11, None)
    (odd,) = [each for each in (await http.get("/v1/dead-letters")).json()["items"] if each["id"] == "0-77"]
    assert odd["written_at"][:4] in {"1970", "9999"}


async def test_of_two_retries_at_once_one_is_sent(http, topic):
    bodies = [RETRY | {"value": f'{{"tool_name":"search","status":"error","user_id":"{name}"}}'} for name in "ab"]
    answers = await asyncio.gather(*(http.post("/v1/dead-letters/0-3/retry", json=body) for body in bodies))
    assert sorted(each.status_code for each in answers) == [200, 404]
    assert len(topic.sent) == 1
    assert await audited(http) == [("0-3", "applied")]


async def test_retry_that_the_brokers_did_not_take_is_recorded_as_failed(http, topic):
    assert (await http.get("/v1/dead-letters/0-3")).status_code == 200

    async def refuse(*_given):
        raise BrokerUnavailableError("Kafka did not answer.")

    topic.__class__ = type("Away", (Topic,), {"__aenter__": refuse})
    assert (await http.post("/v1/dead-letters/0-3/retry", json=RETRY)).status_code == 503
    assert await audited(http) == [("0-3", "failed")]
