"""Hostile names, errors and reasons in what operators read: alerts, tables of the command line, the console's answers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from switchgear.follower.view import decode_view
from switchgear_alerts.facts import read_circuit
from switchgear_alerts.receivers import RECEIVERS, alertmanager, cloudevents, email, pagerduty, slack, webhook
from switchgear_alerts.receivers.base import ChatReceiver, Context, to_json
from switchgear_api.answers import json_answer
from switchgear_api.console.records import circuit_part
from switchgear_api.readonly.formulas import without_formulas
from switchgear_cli.reads import tables
from switchgear_schemas.circuit import Cause
from switchgear_schemas.enums import MAX_NAME_LENGTH
from tests.support.alert_values import change, message
from tests.support.alerting import circuit_record
from tests.support.hostile import hostile
from tests.support.table import table
from tests.support.unseen import unseen
from tests.unit.deploy.reads.test_tables import circuit, execution, report, system

pytestmark = pytest.mark.slow
TEXTS = [each.text for each in hostile() if "\ud800" not in each.text]
"""No JSON in UTF-8 has the other one."""
CONSOLE = "https://console.example.com"
RAW = frozenset({"circuit", "tool", "family", "component", "group", "dedup_key", "circuits"})
"""Fields for programs: they have the name as it is."""


def recorded(text: str) -> bytes:
    """A record in which everything that strangers and operators write is this text. Names have a longest length."""
    name, cause = text[:MAX_NAME_LENGTH], Cause(rule="command", actor=text, reason=text)
    return circuit_record(
        name, "open", 3, cause=cause, last_error=text, fallback=(name,), family=f"mcp:{name}"
    ).to_bytes()


def strings(value: Any, field: str = "") -> Iterator[str]:
    """Every text for people in a payload."""
    if isinstance(value, str) and field not in RAW:
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from strings(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each, field)


@table("text", TEXTS)
def test_no_alert_controls_a_terminal_hides_a_part_or_gives_an_order_in_its_format(text: str):
    told = message(change(text[:MAX_NAME_LENGTH], facts=read_circuit(recorded(text)).facts))
    chats = [each for _, each in RECEIVERS.values() if issubclass(each, ChatReceiver)]
    payloads: list[Any] = [
        *[each.payload(told, CONSOLE) for each in chats],
        webhook.payload(told, CONSOLE),
        pagerduty.events(told, "key", Context(CONSOLE, "prod")),
        [alertmanager.alert(each, {}, CONSOLE) for each in told.changes],
        cloudevents.event(told, "/switchgear", CONSOLE).get_attributes(),
    ]
    for payload in payloads[:-1]:
        assert len(to_json(payload)) < 40_000
    for payload in payloads:
        for each in strings(payload):
            assert not unseen(each), each
    in_slack = slack.payload(told, CONSOLE)
    assert not set(in_slack["text"]) & set("<>"), "Slack finds no mention and no link in it"
    plain = [block["text"]["type"] for block in in_slack["blocks"] if "text" in block]
    assert set(plain) == {"plain_text"}
    mail = email.email_of(told, "a@example.com", ["b@example.com"], CONSOLE)
    assert not set(mail["Subject"]) & set("\r\n")
    assert not unseen(mail.get_content())
    assert [part.get_content_type() for part in mail.walk()] == ["text/plain"]


def printed(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=True)
    console.print(renderable, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


@table("text", TEXTS)
def test_no_table_of_the_command_line_gives_its_terminal_an_order(text: str):
    cause = {"rule": "command", "actor": text, "reason": text}
    row = circuit(text, "forced_open", cause=cause, last_error=text, family=text)
    call = execution(tool_name=text, error_type=text, error_message=text)
    now = "2026-03-01T12:00:00Z"
    shown = [
        tables.tools(system(report(text, "unhealthy", issues=[text], recommendations=[text]))),
        tables.circuits({"circuits": [row], "checked_at": now}),
        tables.circuit_history({"history": [row], "checked_at": now}),
        tables.executions([call], "nothing"),
    ]
    for each in map(printed, shown):
        ours = each.replace("\x1b[0m", "")
        for style in ("1", "31", "1;31", "2", "32", "33", "36"):
            ours = ours.replace(f"\x1b[{style}m", "")
        assert not unseen(ours), repr(ours)


@table("text", TEXTS)
def test_the_consoles_answers_are_json_that_no_page_or_terminal_takes_for_its_own(text: str):
    part = circuit_part(decode_view(recorded(text)))
    answer = json_answer(part)
    assert answer.media_type == "application/json"
    body = bytes(answer.body).decode()
    assert not unseen(body)
    read = json.loads(body)
    assert (read["tool"], read["last_error"]) == (text[:MAX_NAME_LENGTH], text), "the value stays"
    assert read["override"]["reason"] == text


@table("text", TEXTS)
def test_no_cell_of_a_csv_download_is_a_formula_and_the_text_stays(text: str):
    quoted = text.replace('"', '""')
    file = without_formulas(f'"tool_name","calls"\n"{quoted}",-3\n'.encode()).decode()
    _, (cell, calls) = csv.reader(io.StringIO(file, newline=""))
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert cell.replace("'", "") == text.replace("'", "")
    assert calls == "-3"
