"""The record of what operators do, in the real engine: what can be undone, and what the timeline shows of it."""

import asyncio
from datetime import timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_api.console import actions
from switchgear_api.console.audit import Action, Audit
from switchgear_api.console.figures import utc_now
from switchgear_api.operate.command_result import CommandResult
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Database
from tests.support.engine import emptied


@pytest.fixture
def store(engine):
    return emptied(engine)


@pytest.fixture
def audit(store):
    return Audit(Database(store))


class Record:
    """Writes actions, each a minute after the one before."""

    def __init__(self, audit):
        self._audit = audit
        self._at = utc_now() - timedelta(hours=1)

    async def add(self, action, *, outcome="applied", subject="mail", actor="ann", **more):
        self._at += timedelta(minutes=1)
        made = Action(actor, "127.0.0.1", action, subject, "because", undo=[{"verb": "auto"}], at=self._at, **more)
        await self._audit.write(made)
        if outcome != "asked":
            await self._audit.write(made.ended(outcome))
        return str(made.audit_id)


@pytest.mark.parametrize(
    ("outcome", "done"), [("failed", False), ("refused", False), ("applied", True), ("asked", True)]
)
async def test_an_undo_that_changed_nothing_may_be_tried_again(audit, outcome, done):
    record = Record(audit)
    forced = await record.add("force_open")
    await record.add("undo", outcome=outcome, undo_of=forced)
    assert (forced in await audit.undone([forced])) is done


async def test_an_action_that_another_one_replaced_is_found_until_that_one_is_undone(audit):
    record = Record(audit)
    first = await record.add("metrics_only")
    assert await audit.later(await audit.find(first)) is None
    second = await record.add("force_open", actor="bob")
    later = await audit.later(await audit.find(first))
    assert later is not None
    assert (later["actor"], later["action"]) == ("bob", "force_open")
    await record.add("undo", undo_of=second)
    assert await audit.later(await audit.find(first)) is None


async def test_what_changed_nothing_has_ended_or_is_of_another_kind_replaces_nothing(audit):
    record = Record(audit)
    first = await record.add("metrics_only")
    await record.add("force_open", outcome="failed")
    await record.add("force_open", expires_at=utc_now() - timedelta(minutes=1))
    await record.add("set_policy")
    await record.add("force_open", subject="search")
    assert await audit.later(await audit.find(first)) is None
    await record.add("disable", expires_at=utc_now() + timedelta(hours=1))
    assert await audit.later(await audit.find(first)) is not None


async def test_undo_of_a_replaced_command_is_refused_and_says_who_replaced_it(store, audit):
    record = Record(audit)
    first = await record.add("metrics_only")
    await record.add("force_open", actor="bob")
    answer = await _client(store, "POST", f"/v1/audit/{first}/undo", json={"reason": "mine"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == "bob has changed 'mail' since (force_open: because)."


async def test_timeline_marks_a_policy_change_once_and_not_if_it_failed(store, audit):
    record = Record(audit)
    await record.add("set_policy")
    await record.add("set_policy", outcome="failed", actor="bob")
    marks = (await _client(store, "GET", "/v1/console/timeline")).json()["marks"]
    assert [each["text"] for each in marks] == ["mail: policy changed by ann: because"]


async def test_reason_of_spaces_is_no_reason(store):
    for path, body in (
        ("/v1/circuits/mail/commands", {"command": "force_open", "reason": "  "}),
        ("/v1/dead-letters/0-1/retry", {"reason": " "}),
        ("/v1/dead-letters/0-1/retry", {}),
    ):
        answer = await _client(store, "POST", path, json=body)
        assert (answer.status_code, "reason" in answer.json()["detail"]) == (400, True), body


async def test_of_several_undos_at_once_one_sends_the_command(store, monkeypatch):
    sent = sending(monkeypatch)
    app = create_app(store, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        done = await http.post("/v1/circuits/mail/commands", json={"command": "force_open", "reason": "drill"})
        path = f"/v1/audit/{done.json()['audit_id']}/undo"
        answers = await asyncio.gather(*(http.post(path, json={"reason": f"undo {number}"}) for number in range(3)))
    assert sorted(each.status_code for each in answers) == [200, 409, 409]
    assert [each.verb for each in sent] == ["force_open", "auto"]


async def test_refused_command_has_no_state_after_it(store, monkeypatch):
    sending(monkeypatch, outcome="refused")
    body = {"command": "force_open", "reason": "drill"}
    assert (await _client(store, "POST", "/v1/circuits/mail/commands", json=body)).status_code == 400
    (item,) = (await _client(store, "GET", "/v1/audit")).json()["items"]
    assert (item["outcome"], item["before"]["state"], item["after"]) == ("refused", "closed", None)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/circuits/mail/commands?dry_run=1", {"command": "force_open", "reason": "drill"}),
        ("PUT", "/v1/policies/mail?dry_run=1", {"policy": {"jitter": 0.5}, "reason": "drill"}),
        ("POST", "/v1/policies/replay?hours=3", {"tool": "mail", "policy": {}}),
        ("POST", "/v1/audit/00000000-0000-0000-0000-000000000000/undo?dry_run=1", {"reason": "drill"}),
        ("POST", "/v1/dead-letters/0-1/retry?dry_run=1", {"reason": "drill"}),
        ("POST", "/v1/sql?limit=3", {"query": "SELECT 1"}),
        ("PUT", "/v1/retention?tenant=acme", {"days": 3}),
    ],
)
async def test_parameter_in_the_address_that_a_route_does_not_know_stops_the_action(
    store, monkeypatch, method, path, body
):
    sent = sending(monkeypatch)
    answer = await _client(store, method, path, json=body)
    assert (answer.status_code, "Unknown parameter" in answer.json()["detail"], sent) == (400, True, [])


def sending(monkeypatch, outcome="applied"):
    """Return the list of the commands that are sent instead of to Kafka."""
    sent = []

    async def send(_settings, commands, *, wait_s):
        await asyncio.sleep(0.05)
        sent.extend(commands)
        return [
            CommandResult(each, outcome, reason="it is refused" if outcome == "refused" else "") for each in commands
        ]

    monkeypatch.setattr(actions, "send_command", send)
    return sent


async def _client(store, method, path, **given):
    app = create_app(store, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        return await http.request(method, path, **given)
