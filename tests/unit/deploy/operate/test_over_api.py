"""Operators' commands through the HTTP API: when they go there, what they carry, and what is printed."""

from __future__ import annotations

import json
import time
from uuid import uuid4

import pytest

from switchgear_api.operate import send_command as send_command_module
from switchgear_api.operate.command_result import CommandResult
from switchgear_api.operate.send_command import this_person
from switchgear_cli.discovery import System
from switchgear_cli.main import FAILED, WRONG_USAGE, run
from switchgear_cli.operate.options import CommandOptions
from switchgear_cli.reads.client import ApiAnswerError, ApiClient, ApiUnavailableError
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from tests.support.table import table

pytestmark = pytest.mark.slow


class Api:
    """What the API knows and answers; and what it was sent."""

    def __init__(self) -> None:
        self.circuits = [("x", "tool"), ("mcp:y", "tool"), ("mcp:y|user=u1", "user"), ("mcp:github|family", "family")]
        self.policies_set: list[str] = []
        self.commands_wait = False
        self.sent: list[tuple[str, dict]] = []
        self.error: Exception | None = None
        self.away: Exception | None = None
        self.outcome = "applied"

    def known(self) -> dict:
        if self.away is not None:
            raise self.away
        rows = [
            {"circuit_id": name, "tool": name.partition("|")[0], "scope": scope, "state": "closed"}
            for name, scope in self.circuits
        ]
        return {
            "circuits": rows,
            "tools": ["mcp:y", "stored", "x"],
            "policies_set": self.policies_set,
            "commands_wait": self.commands_wait,
            "remarks": [],
        }

    def answer(self, subject: str, body: dict) -> dict:
        self.sent.append((subject, body))
        if self.error is not None:
            raise self.error
        circuit = Circuit(
            circuit_id=subject,
            tool_name=subject.partition("|")[0],
            state="forced_open",
            version=3,
            generation=0,
            changed_at="2026-11-22T03:00:00Z",
            cause=Cause(rule="command", actor=body.get("actor", "ada"), reason=body["reason"]),
        )
        return {
            "audit_id": "a1",
            "command_id": str(uuid4()),
            "outcome": self.outcome if body["wait_s"] else "sent",
            "detail": None,
            "circuit": circuit.to_dict(),
        }

    @property
    def subjects(self) -> list[str]:
        return [subject for subject, _ in self.sent]


@pytest.fixture
def to_kafka(monkeypatch):
    """The commands that went to Kafka."""
    found = []

    async def send(_settings, commands, *, wait_s):
        found.extend(commands)
        return [CommandResult(command, "sent") for command in commands]

    monkeypatch.setattr(send_command_module, "send_command", send)
    return found


@pytest.fixture
def api(monkeypatch, to_kafka, tmp_path) -> Api:
    found = Api()

    def command(_api, circuit_id, verb, lasts_s=None, *, limit_s, **how):
        return found.answer(circuit_id, how | {"verb": verb, "lasts_s": lasts_s, "limit_s": limit_s})

    def set_policy(_api, pattern, values, *, family, limit_s, **how):
        return found.answer(pattern, how | {"values": values, "family": family, "limit_s": limit_s})

    monkeypatch.setattr(ApiClient, "known", lambda _api: found.known())
    monkeypatch.setattr(ApiClient, "command", command)
    monkeypatch.setattr(ApiClient, "set_policy", set_policy)
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://api.example:8620")
    return found


@table(
    ("token", "kafka", "origin", "options", "over_api"),
    [
        (None, "default", "default", {}, True),
        (None, "default", "named", {}, True),
        (None, "found", "found", {}, True),
        (None, "named", "named", {}, True),
        (None, "named", "found", {}, True),
        (None, "named", "default", {}, False),
        (None, "found", "default", {}, False),
        ("sgt_x", "named", "default", {}, True),
        (None, "default", "named", {"actor": "ada"}, True),
        ("sgt_x", "default", "named", {"actor": "ada"}, False),
        ("sgt_x", "default", "named", {"bootstrap_servers": "k:9092"}, False),
        (None, "default", "named", {"bootstrap_servers": "k:9092"}, False),
        (None, "default", "named", {"topic_prefix": "mine."}, False),
        (None, "default", "named", {"wait": False}, False),
    ],
)
def test_a_command_goes_to_kafka_only_if_the_api_may_be_another_systems_or_an_option_asks_for_it(
    token, kafka, origin, options, over_api
):
    system = System(Settings(token=token), kafka=kafka, api=origin)
    assert CommandOptions(**options).over_api(system) is over_api


@pytest.mark.slow
def test_without_a_token_the_command_carries_this_person_or_the_one_that_is_named(api, to_kafka):
    assert run(["open", "x"]) == 0
    assert run(["open", "x", "--actor", "ada", "--reason", "drill", "--for", "10m"]) == 0
    first, second = (body for _, body in api.sent)
    assert (first["actor"], first["reason"], first["lasts_s"]) == (this_person(), "no reason given", None)
    assert (second["actor"], second["reason"], second["lasts_s"]) == ("ada", "drill", 600.0)
    assert to_kafka == []


def test_a_command_is_not_given_under_the_name_of_a_login(api, to_kafka, capsys):
    assert run(["open", "x", "--actor", "token:ada"]) == 2
    assert "--actor 'token:ada'" in capsys.readouterr().err
    assert (api.sent, to_kafka) == ([], [])


@pytest.mark.slow
def test_with_a_token_the_command_carries_no_actor_and_another_actor_goes_to_kafka(api, to_kafka, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_TOKEN", "sgt_x")
    assert run(["open", "x"]) == 0
    assert "actor" not in api.sent[0][1]
    assert run(["open", "x", "--actor", "ada", "--create"]) == 0
    assert (len(api.sent), [each.actor for each in to_kafka]) == (1, ["ada"])


def test_the_json_object_has_the_same_keys_as_over_kafka_and_the_id_of_the_audit(api, capsys):
    assert run(["open", "x", "mcp:y", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["tool_name"], line["outcome"], line["circuit"]["state"]) for line in lines] == [
        ("x", "applied", "forced_open"),
        ("mcp:y", "applied", "forced_open"),
    ]
    assert list(lines[0]) == ["command_id", "tool_name", "verb", "outcome", "reason", "circuit", "audit_id"]


def test_the_sentence_is_the_same_as_over_kafka(api, capsys):
    assert run(["open", "x", "--actor", "ada", "--reason", "drill"]) == 0
    assert capsys.readouterr().out == "x: forced open, version 3, by ada: drill.\n"


@pytest.mark.slow
def test_names_globs_and_users_mean_what_they_mean_over_kafka(api, capsys):
    assert run(["open", "stored"]) == 0
    assert run(["open", "*", "--user", "u1", "--yes"]) == 0
    assert run(["open", "mcp:github", "--family"]) == 0
    assert api.subjects == ["stored", "mcp:y|user=u1", "mcp:github|family"]
    assert run(["open", "x", "--user", "u1"]) == WRONG_USAGE
    assert run(["open", "mcp:gitlab", "--family"]) == WRONG_USAGE
    assert "did you mean mcp:github|family" in capsys.readouterr().err
    assert run(["open", "x", "--circuit", "mcp:y|user=u1"]) == WRONG_USAGE
    assert "'mcp:y|user=u1' is not a circuit of 'x'. Name its own tool." in capsys.readouterr().err
    assert len(api.sent) == 3


@pytest.mark.slow
def test_a_familys_policy_goes_through_the_api(api, to_kafka):
    assert run(["policy", "set", "mcp:github", "minimum_tools=3", "--family"]) == 0
    api.policies_set = ["mcp:github|family"]
    assert run(["policy", "clear", "mcp:github", "--family"]) == 0
    assert [(body["values"], body["family"]) for _, body in api.sent] == [({"minimum_tools": 3}, True), ({}, True)]
    assert to_kafka == []


@pytest.mark.slow
def test_clearing_what_is_not_set_is_an_error_and_nothing_is_sent(api, capsys):
    api.policies_set = ["mcp:*"]
    assert run(["policy", "clear", "mcp:?"]) == FAILED
    assert "nothing was sent. Values are set for mcp:*." in capsys.readouterr().err
    assert run(["policy", "clear", "x", "--family"]) == FAILED
    assert api.sent == []
    api.commands_wait = True
    assert run(["policy", "clear", "x"]) == 0
    api.outcome = "unchanged"
    assert run(["policy", "clear", "x"]) == FAILED


@pytest.mark.slow
def test_no_access_without_a_token_is_an_error_and_nothing_goes_to_kafka(api, to_kafka, capsys):
    for status in (401, 403):
        api.away = ApiAnswerError("This server needs a token.", hint="Send the header.", status=status)
        assert run(["open", "x", "--create"]) == FAILED
        error = capsys.readouterr().err
        assert "This server needs a token. Nothing was sent. Set SWITCHGEAR_TOKEN" in error
        assert "or name Kafka with --bootstrap-servers." in error
    assert (api.sent, to_kafka) == ([], [])


@pytest.mark.parametrize(("named", "said"), [(True, True), (False, False)])
def test_where_no_api_answers_the_command_goes_to_kafka_and_says_so_unless_nobody_named_the_api(
    api, to_kafka, capsys, monkeypatch, named, said
):
    if not named:
        monkeypatch.delenv("SWITCHGEAR_API_URL")
    api.away = ApiUnavailableError("The API at http://api.example cannot be reached.")
    assert run(["open", "x", "--create"]) == 0
    assert len(to_kafka) == 1
    assert ("cannot be reached. The command goes to Kafka." in capsys.readouterr().err) is said


def test_an_api_that_goes_away_after_the_question_leaves_the_command_unconfirmed_and_out_of_kafka(
    api, to_kafka, capsys
):
    api.error = ApiUnavailableError("The API at http://api.example did not answer in time.")
    assert run(["open", "x"]) == FAILED
    error = capsys.readouterr().err
    assert error.startswith("x: not confirmed: The API at http://api.example did not answer in time.")
    assert to_kafka == []


def test_what_the_worker_refuses_is_a_result_of_its_own_and_the_other_tools_go_on(api, capsys):
    api.error = ApiAnswerError("The worker refused it: the policy's scope is tool.", status=400)
    assert run(["open", "x", "mcp:y", "--json"]) == FAILED
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["outcome"], line["reason"]) for line in lines] == [
        ("refused", "The worker refused it: the policy's scope is tool.")
    ] * 2


def test_the_timeout_limits_the_wait_of_all_tools_together_and_all_are_sent(api, monkeypatch, capsys):
    really = api.answer

    def slow(subject, body):
        time.sleep(0.12)
        return really(subject, body)

    monkeypatch.setattr(api, "answer", slow)
    monkeypatch.setattr("switchgear_cli.operate.over_api._AT_A_TIME", 1)
    api.circuits += [(f"many:{number}", "tool") for number in range(5)]
    monkeypatch.setattr(api, "known", lambda known=api.known: known() | {"tools": [name for name, _ in api.circuits]})
    assert run(["open", "many:*", "--yes", "--timeout", "0.3"]) == FAILED
    waits = [body["wait_s"] for _, body in api.sent]
    assert len(waits) == 5
    assert 0.3 >= waits[0] > waits[1] > waits[2] > waits[3] == waits[4] == 0
    assert all(body["limit_s"] <= body["wait_s"] + 20 for _, body in api.sent)
    shown = capsys.readouterr()
    assert "many:4: not confirmed within 0.3 s. It is in the log" in shown.err
    assert shown.out.startswith("many:0: forced open")
