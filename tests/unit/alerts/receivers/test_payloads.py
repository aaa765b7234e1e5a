"""What receivers get, checked against their published schemas."""

import json
from pathlib import Path

import jsonschema
import pytest
from cloudevents.core.bindings.http import to_structured_event
from jsonschema import Draft202012Validator, FormatChecker

from switchgear_alerts.messages import Digest, Facts, ToolTally
from switchgear_alerts.receivers import alertmanager, cloudevents, email, pagerduty, slack, teams, webhook
from switchgear_alerts.receivers.base import Context
from tests.support.alert_values import NOON, change, facts, message

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CONSOLE = "https://console.example.com/switchgear"
HOSTILE = "mcp:x:<!channel> [click](javascript:alert(1)) *bold* \u202e\n@here & co " + "x" * 150
LONG = facts(HOSTILE, family="mcp:x", why="w" * 500, last_error="<!everyone> " + "e" * 480, fallback=("a", "b"))
GROUP = [
    change(f"mcp:x:tool-{number}", facts=facts(f"mcp:x:tool-{number}", family="mcp:x"), thread="group-1")
    for number in range(250)
]
DIGEST = Digest(
    since=NOON - 86_400, until=NOON, opens=3, open_now=("search",),
    tools=(ToolTally(circuit_id="search", opens=3, open_s=900, longest_s=600),),
)  # fmt: skip
MESSAGES = {
    "opened": message(change()),
    "resolved": message(change(kind="resolved")),
    "updated": message(change(kind="updated", acknowledged=True, note="forced open by ada")),
    "flapping": message(change(flapping=True, note="it opened 3 times lately")),
    "family": message(change(facts=facts("mcp:x|family", tool_name="mcp:x", family="mcp:x", scope="family"))),
    "hostile": message(change(HOSTILE, facts=LONG)),
    "bare": message(change(facts=Facts(circuit_id="t", tool_name="t", state="open"))),
    "group": message(*GROUP),
    "group resolved": message(
        *[change(each.facts.circuit_id, "resolved", thread="group-1", last=each is GROUP[-1]) for each in GROUP]
    ),
    "digest": message(id="digest-1", kind="digest", digest=DIGEST),
}
INCIDENTS = {name: each for name, each in MESSAGES.items() if each.digest is None}


def check(name, value):
    schema = json.loads((FIXTURES / f"{name}.json").read_text())
    kind = jsonschema.validators.validator_for(schema, Draft202012Validator)
    kind(schema, format_checker=FormatChecker()).validate(json.loads(json.dumps(value)))


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.parametrize("console", [None, CONSOLE])
def test_alerts_have_the_form_of_alertmanagers_openapi(name, console):
    alerts = [alertmanager.alert(each, {"cluster": "eu"}, console) for each in MESSAGES[name].changes]
    check("alertmanager", alerts)
    assert all(each["labels"]["cluster"] == "eu" for each in alerts)


def test_an_alert_has_the_same_labels_and_start_when_it_resolves_and_an_end():
    opened, resolved = (alertmanager.alert(change(kind=kind), {}, None) for kind in ("opened", "resolved"))
    assert opened["labels"] == resolved["labels"]
    assert opened["startsAt"] == resolved["startsAt"] == "2026-11-21T12:00:00.000Z"
    assert "endsAt" not in opened
    assert resolved["endsAt"] == "2026-11-21T12:01:00.000Z"


@pytest.mark.parametrize("name", INCIDENTS)
def test_events_have_the_form_of_pagerdutys_openapi(name):
    for event in pagerduty.events(MESSAGES[name], "key", Context(CONSOLE, "prod")):
        check("pagerduty", event)
        assert len(event["dedup_key"]) <= 255
        assert len(event.get("payload", {}).get("summary", "x")) <= 1024


def test_pagerduty_triggers_acknowledges_and_resolves_under_one_key():
    actions = [
        (event["event_action"], event["dedup_key"])
        for name in ("opened", "updated", "resolved")
        for event in pagerduty.events(MESSAGES[name], "key", Context())
    ]
    assert actions == [(each, "search@1") for each in ("trigger", "trigger", "acknowledge", "resolve")]


def test_a_group_is_one_pagerduty_alert_that_resolves_with_its_last_member():
    (opened,) = pagerduty.events(MESSAGES["group"], "key", Context())
    assert opened["dedup_key"] == "group-1"
    assert len(opened["payload"]["custom_details"]["circuits"]) == 250
    not_yet = message(change("mcp:x:tool-1", "resolved", thread="group-1", last=False))
    assert pagerduty.events(not_yet, "key", Context()) == []
    (resolved,) = pagerduty.events(MESSAGES["group resolved"], "key", Context())
    assert (resolved["event_action"], resolved["dedup_key"]) == ("resolve", "group-1")


def test_forcing_one_circuit_of_a_group_does_not_acknowledge_the_pagerduty_alert_of_the_others():
    forced = message(change("mcp:x:tool-1", "updated", thread="group-1", acknowledged=True))
    assert [event["event_action"] for event in pagerduty.events(forced, "key", Context())] == ["trigger"]


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("console", [None, CONSOLE])
def test_slack_messages_keep_the_limits_of_blocks(name, console):
    check("slack", slack.payload(MESSAGES[name], console))


def test_a_tool_name_can_neither_mention_people_nor_link_in_slack():
    body = slack.payload(MESSAGES["hostile"], None)
    header, *others = body["blocks"]
    assert header["text"]["type"] == "plain_text"  # which has no markup
    assert "<!" not in json.dumps([body["text"], others])
    assert "\u202e" not in json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("console", [None, CONSOLE])
def test_teams_cards_have_the_form_of_adaptive_cards(name, console):
    body = teams.payload(MESSAGES[name], console)
    (attachment,) = body["attachments"]
    assert (body["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = {key: value for key, value in attachment["content"].items() if key != "msteams"}  # Teams' own key
    check("adaptive_card", card)
    assert len(json.dumps(body)) < 28_000


@pytest.mark.parametrize("name", MESSAGES)
def test_events_have_the_form_of_the_cloudevents_schema(name):
    event = cloudevents.event(MESSAGES[name], "/switchgear/prod", CONSOLE)
    found = to_structured_event(event)
    assert found.headers["content-type"].startswith("application/cloudevents+json")
    body = json.loads(found.body)
    check("cloudevents", body)
    assert body["type"] == f"dev.switchgear.{'digest' if name == 'digest' else 'incident.' + MESSAGES[name].kind}"
    assert body["id"] == MESSAGES[name].id


@pytest.mark.parametrize("name", MESSAGES)
def test_webhook_bodies_have_the_form_that_standard_webhooks_recommends(name):
    body = json.loads(json.dumps(webhook.payload(MESSAGES[name], CONSOLE)))
    assert set(body) == {"type", "timestamp", "data"}
    assert body["type"].startswith("switchgear.")
    assert len(body["data"].get("incidents", [])) == len(MESSAGES[name].changes)


def test_the_link_to_the_console_names_the_tool():
    assert webhook.payload(MESSAGES["opened"], f"{CONSOLE}/")["data"]["console_url"] == f"{CONSOLE}/tool/search"
    assert "console_url" not in webhook.payload(MESSAGES["opened"], None)["data"]


@pytest.mark.parametrize("name", MESSAGES)
def test_emails_can_be_sent_and_keep_their_id(name):
    first, again = (
        email.email_of(MESSAGES[name], "switchgear@example.com", ("ops@example.com",), CONSOLE).as_bytes()
        for _ in range(2)
    )
    assert (
        first.partition(b"Message-ID")[2].partition(b"\n")[0] == again.partition(b"Message-ID")[2].partition(b"\n")[0]
    )
    assert b"\nBcc" not in first


def test_the_emails_of_an_incident_are_one_conversation():
    opened, resolved = (
        email.email_of(MESSAGES[name], "a@example.com", ("b@example.com",), None) for name in ("opened", "resolved")
    )
    assert resolved["In-Reply-To"] == opened["Message-ID"]
    assert resolved["Message-ID"] != opened["Message-ID"]
