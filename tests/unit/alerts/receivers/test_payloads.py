"""What receivers get, checked against their published schemas."""

import json
from email import message_from_bytes
from pathlib import Path

import jsonschema
import pytest
from cloudevents.core.bindings.http import to_structured_event
from jsonschema import Draft202012Validator, FormatChecker

from switchgear_alerts.messages import Digest, Facts, ToolTally
from switchgear_alerts.receivers import alertmanager, cloudevents, email, pagerduty, slack, teams, webhook
from switchgear_alerts.receivers.base import Context, to_json
from tests.support.alert_values import NOON, change, facts, message
from tests.support.table import table

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


@pytest.mark.slow
@table("name", INCIDENTS)
@table("console", [None, CONSOLE])
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


@table("name", INCIDENTS)
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


@pytest.mark.parametrize("names", [("search",), ("search", "mail")])
def test_circuits_that_an_operator_forced_open_before_they_were_announced_are_acknowledged_at_once(names):
    thread = "search@1" if len(names) == 1 else "group-1"
    forced = message(*[change(name, facts=facts(name, "forced_open"), thread=thread) for name in names])
    actions = [(event["event_action"], event["dedup_key"]) for event in pagerduty.events(forced, "key", Context())]
    assert actions == [("trigger", thread), ("acknowledge", thread)]


def test_a_group_with_one_forced_circuit_is_not_acknowledged_when_it_opens():
    changes = [change("a", thread="group-1"), change("b", facts=facts("b", "forced_open"), thread="group-1")]
    assert [each["event_action"] for each in pagerduty.events(message(*changes), "key", Context())] == ["trigger"]


def test_a_pagerduty_event_of_many_circuits_with_long_names_keeps_the_limit_in_bytes_and_says_how_many_it_leaves_out():
    changes = [change(str(n), facts=facts(f"{n}{'工' * 250}", why="由" * 500), thread="group-1") for n in range(600)]
    (event,) = pagerduty.events(message(*changes), "key", Context())
    assert len(to_json(event)) < 512_000
    *shown, more = event["payload"]["custom_details"]["circuits"]
    assert more == f"… and {600 - len(shown)} more"
    assert len(shown) > 150


def test_forcing_one_circuit_of_a_group_does_not_acknowledge_the_pagerduty_alert_of_the_others():
    forced = message(change("mcp:x:tool-1", "updated", thread="group-1", acknowledged=True))
    assert [event["event_action"] for event in pagerduty.events(forced, "key", Context())] == ["trigger"]


@table("name", MESSAGES)
@table("console", [None, CONSOLE])
def test_slack_messages_keep_the_limits_of_blocks(name, console):
    check("slack", slack.payload(MESSAGES[name], console))


def slack_texts(body):
    return [text for block in body["blocks"] for text in (block.get("elements") or [block["text"]])]


@table("name", MESSAGES)
def test_names_and_errors_have_no_markup_mentions_and_emoji_in_slack(name):
    body = slack.payload(MESSAGES[name], CONSOLE)
    plain, (link,) = ([each for each in slack_texts(body) if each["type"] == kind] for kind in ("plain_text", "mrkdwn"))
    assert all(each["emoji"] is False for each in plain)
    assert link["text"].startswith(f"<{CONSOLE}/")
    assert "<" not in body["text"] + link["text"].removeprefix("<")  # so neither <!channel> nor <@U123>
    assert "\u202e" not in json.dumps(body, ensure_ascii=False)


def test_slack_shows_code_in_an_error_as_it_is():
    error = "TypeError: f(*args, **kwargs) got `x` & <y> in ~/a~ :warning:"
    assert (
        f"Last error: {error}\n"
        in slack_texts(slack.payload(message(change(facts=facts(last_error=error))), None))[1]["text"]
    )


def test_a_slack_list_that_is_too_long_ends_with_a_whole_line_and_how_many_are_left_out():
    changes = [change(f"tool-{n}", facts=facts(f"tool-{n}", why="w" * 200), thread="group-1") for n in range(250)]
    *lines, more = slack.payload(message(*changes), None)["blocks"][1]["text"]["text"].split("\n")
    assert all(line.endswith("w" * 200) for line in lines)
    assert len(lines) == 14
    assert more == "… and 236 more"


def test_a_slack_digest_says_what_is_open_now_also_after_a_long_list():
    tools = tuple(ToolTally(circuit_id=f"{n}{'x' * 200}", opens=1, open_s=9, longest_s=9) for n in range(30))
    digest = Digest(since=NOON - 86_400, until=NOON, opens=30, open_now=("search",), tools=tools)
    body = slack.payload(message(id="digest-1", kind="digest", digest=digest), None)
    _, listed, open_now = (each["text"] for each in slack_texts(body))
    assert listed.rpartition("\n")[2] == f"… and {30 - listed.count('•')} more"
    assert open_now == "Open now: search."


@table("name", MESSAGES)
@table("console", [None, CONSOLE])
def test_teams_cards_have_the_form_of_adaptive_cards(name, console):
    body = teams.payload(MESSAGES[name], console)
    (attachment,) = body["attachments"]
    assert (body["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = {key: value for key, value in attachment["content"].items() if key != "msteams"}  # Teams' own key
    check("adaptive_card", card)
    assert len(json.dumps(body)) < 28_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["工" * 250, "🔥" * 250, "\u200b" * 250, "\U000e0001" * 250])
def test_a_teams_card_of_many_circuits_with_long_names_keeps_the_limit_in_bytes(name):
    changes = [change(str(n), facts=facts(f"{n}{name}", why="由" * 500), thread="group-1") for n in range(20)]
    body = teams.payload(message(*changes), CONSOLE)
    assert len(to_json(body)) < 28_000
    texts = [run["text"] for block in body["attachments"][0]["content"]["body"] for run in block.get("inlines", [])]
    assert texts[-1] == f"… and {22 - len(texts)} more"
    digest = Digest(since=NOON, until=NOON, opens=1, open_now=(name,) * 20, tools=(ToolTally(circuit_id=name),) * 30)
    assert len(to_json(teams.payload(message(id="d", kind="digest", digest=digest), CONSOLE))) < 28_000
    one = message(change(name, facts=facts(name, why="由" * 500, last_error="由" * 500, fallback=(name,) * 10)))
    assert len(to_json(teams.payload(one, CONSOLE))) < 28_000


def test_the_subject_of_a_cloudevent_has_no_control_characters():
    event = cloudevents.event(message(change("a", facts=facts("a\nb\x85\ufffe"))), "/switchgear", None)
    assert json.loads(to_structured_event(event).body)["subject"] == r"a\u000ab\u0085\ufffe"


@table("name", MESSAGES)
def test_events_have_the_form_of_the_cloudevents_schema(name):
    event = cloudevents.event(MESSAGES[name], "/switchgear/prod", CONSOLE)
    found = to_structured_event(event)
    assert found.headers["content-type"].startswith("application/cloudevents+json")
    body = json.loads(found.body)
    check("cloudevents", body)
    assert body["type"] == f"dev.switchgear.{'digest' if name == 'digest' else 'incident.' + MESSAGES[name].kind}"
    assert body["id"] == MESSAGES[name].id


@table("name", MESSAGES)
def test_webhook_bodies_have_the_form_that_standard_webhooks_recommends(name):
    body = json.loads(json.dumps(webhook.payload(MESSAGES[name], CONSOLE)))
    assert set(body) == {"type", "timestamp", "data"}
    assert body["type"].startswith("switchgear.")
    assert len(body["data"].get("incidents", [])) == len(MESSAGES[name].changes)


def test_the_link_to_the_console_names_the_tool():
    assert webhook.payload(MESSAGES["opened"], f"{CONSOLE}/")["data"]["console_url"] == f"{CONSOLE}/tool/search"
    assert "console_url" not in webhook.payload(MESSAGES["opened"], None)["data"]


@table("name", MESSAGES)
def test_emails_can_be_sent_and_keep_their_id(name):
    first, again = (
        email.email_of(MESSAGES[name], "switchgear@example.com", ("ops@example.com",), CONSOLE).as_bytes()
        for _ in range(2)
    )
    assert (
        first.partition(b"Message-ID")[2].partition(b"\n")[0] == again.partition(b"Message-ID")[2].partition(b"\n")[0]
    )
    assert b"\nBcc" not in first


@pytest.mark.parametrize(
    "name",
    [
        "=?utf-8?q?x=0D=0AReply-To=3A_evil=40example.com=0D=0A=0D=0A<h1>all_is_well</h1>?=",
        "mcp:x =?utf-8?b?YQ0KQmNjOiBldmlsQGV4YW1wbGUuY29t?= y",
        "==?utf-8?q?=0ABcc=3A_evil=40example.com?=",
    ],
)
def test_a_tool_name_can_not_add_headers_or_a_body_to_an_email(name):
    headers = [
        parsed.keys()
        for each in (name, "search")
        for parsed in [
            message_from_bytes(
                email.email_of(message(change(each, facts=facts(each))), "a@x.org", ("b@x.org",), None).as_bytes()
            )
        ]
    ]
    assert headers[0] == headers[1]
    subject = email.email_of(message(change(name, facts=facts(name))), "a@x.org", ("b@x.org",), None)["Subject"]
    assert name.replace("=?", "= ?") in subject


def test_the_emails_of_an_incident_are_one_conversation():
    opened, resolved = (
        email.email_of(MESSAGES[name], "a@example.com", ("b@example.com",), None) for name in ("opened", "resolved")
    )
    assert resolved["In-Reply-To"] == opened["Message-ID"]
    assert resolved["Message-ID"] != opened["Message-ID"]
