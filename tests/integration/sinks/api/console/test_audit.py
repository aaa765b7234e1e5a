"""The record of what operators do, in the real engine: what can be undone, and what the timeline shows of it."""

from datetime import timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app
from switchgear_sinks.api.console.audit import Action, Audit
from switchgear_sinks.api.console.figures import utc_now
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


async def _client(store, method, path, **given):
    app = create_app(store, Settings(), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        return await http.request(method, path, **given)
