"""What the view reads from the API, and what it keeps when the API is away. Answers as the API gives them."""

from datetime import UTC, datetime

import httpx
import pytest

from switchgear_cli.up.view import Readings, TransitionLine, api_client, read, transitions

WORDS = "more calls failed than a healthy tool's do"


def record(state, previous, at="2026-01-02T03:04:05.678901Z", rule="cusum"):
    return {
        "tool_name": "mcp:a:b",
        "state": state,
        "previous_state": previous,
        "changed_at": at,
        "cause": {"rule": rule} if rule else None,
    }


class Api:
    """The answers of one API, by path; None: it does not answer."""

    def __init__(self):
        self.circuits = {"circuits": {"a": {"state": "open"}, "b": {"state": "closed"}, "c": {"state": "closed"}}}
        self.history = {"history": [record("open", "closed")]}
        self.stored = {"events": 7, "newest_event_at": "2026-01-02T03:04:05Z"}
        self.status = 200
        self.away = False

    def __call__(self, request):
        if self.away:
            raise httpx.ConnectError("refused")
        if request.url.path == "/v1/stored":
            return httpx.Response(self.status, json=self.stored)
        return httpx.Response(self.status, json=self.history if "history" in request.url.params else self.circuits)


@pytest.fixture
def api():
    return Api()


@pytest.fixture
async def client(api):
    async with httpx.AsyncClient(transport=httpx.MockTransport(api)) as found:
        yield found


async def test_the_circuits_are_counted_by_state(client):
    found = await read(client, "http://api", Readings())
    assert found.circuits == {"open": 1, "closed": 2}
    assert (found.stored, found.newest_at) == (7, "2026-01-02T03:04:05Z")
    assert found.problem == ""
    assert found.transitions == (
        TransitionLine(datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), "mcp:a:b", "closed", "open", WORDS),
    )


async def test_the_changes_of_state_are_asked_for_only_when_a_circuit_changed(client, api):
    before = await read(client, "http://api", Readings())
    api.history = {"history": [record("closed", "half_open"), record("open", "closed")]}
    assert (await read(client, "http://api", before)).transitions == before.transitions
    api.circuits["circuits"]["a"] = {"state": "closed"}
    assert [line.state for line in (await read(client, "http://api", before)).transitions] == ["closed", "open"]


async def test_an_api_that_is_away_keeps_what_was_read_and_says_so(client, api):
    before = await read(client, "http://api", Readings())
    api.away = True
    after = await read(client, "http://api", before)
    assert (after.stored, after.circuits) == (7, before.circuits)
    assert after.problem == "The API does not answer (ConnectError)."


async def test_the_token_is_sent_with_every_request(monkeypatch, api):
    sent = []

    def answer(request):
        sent.append(request.headers.get("Authorization"))
        return api(request)

    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **given: real(transport=httpx.MockTransport(answer), **given))
    async with api_client("sgt_abc") as client:
        assert (await read(client, "http://api", Readings())).problem == ""
    assert sent == ["Bearer sgt_abc"] * 3


async def test_the_view_shows_the_message_of_an_error_of_the_api(client, api):
    api.status, api.circuits = 503, {"error": "The tables do not exist yet."}
    found = await read(client, "http://api", Readings())
    assert "503" in found.problem
    assert "The tables do not exist yet." in found.problem


@pytest.mark.parametrize("answer", [{"events": "many"}, {"events": None}, {}, []])
async def test_an_answer_of_another_shape_is_shown_and_not_raised(client, api, answer):
    api.stored = answer
    found = await read(client, "http://api", Readings(stored=3))
    assert found.stored == 3
    assert "not as expected" in found.problem


def test_a_record_that_only_adds_a_lease_is_not_a_transition():
    assert transitions([record("half_open", "half_open")]) == []


def test_a_circuits_first_record_is_a_transition_only_if_it_is_not_closed():
    assert transitions([record("closed", None)]) == []
    assert [line.previous for line in transitions([record("forced_open", None)])] == [""]


def test_a_record_without_a_cause_is_shown_without_a_reason():
    assert transitions([record("closed", "open", rule=None)])[0].why == ""


def test_what_an_operator_wrote_can_not_steer_the_terminal():
    forced = record("forced_open", "closed") | {"cause": {"rule": "command", "actor": "ada", "reason": "a\x1b[2Jb\nc"}}
    assert transitions([forced])[0].why == "forced open by ada: a\\u001b[2Jb c"


async def test_what_the_api_knows_not_to_work_is_read_and_an_api_of_an_earlier_release_knows_nothing(client, api):
    assert (await read(client, "http://api", Readings())).problems == ()
    api.circuits["problems"] = [{"what": "No worker runs."}]
    assert (await read(client, "http://api", Readings())).problems == ({"what": "No worker runs."},)
