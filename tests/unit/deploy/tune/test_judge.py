"""What a policy in metrics-only mode would have done, from the records that the fold publishes and ClickHouse stores."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.main import WRONG_USAGE, run
from switchgear_cli.reads.client import ApiClient
from switchgear_cli.tune import judge as judging
from switchgear_cli.tune.calls import TuneError
from switchgear_cli.tune.candidates import Candidate, Proposal, live_policies
from switchgear_cli.tune.cost import Prices
from switchgear_schemas import Command
from switchgear_schemas.settings import Settings
from tests.support.api import serving
from tests.support.engine import call, migrated_store, store_calls, store_circuits
from tests.support.fleet import COMMANDS, START_MS, World

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=27)
SHIFT = int(START.timestamp()) - START_MS // 1000
"""The world's clock starts at an instant of its own."""
PRICES = Prices(token_usd=0.001, second_usd=0.0, refused_usd=0.5, delay_usd=0.0)
STRICT = Candidate({"consecutive_failures": 3, "wait_duration_in_open_state_s": 60, "cusum": None})
DAY_AND_MORE = START + timedelta(seconds=100, hours=26)
TOOLS = ("search", "seaside", "other")
pytestmark = pytest.mark.slow


class Recording:
    """A fleet in which ``tune --apply`` has set a policy for ``sea*`` at second 100, and what is stored of it."""

    def __init__(self):
        self.world = World()
        self.calls, self.records, self.arrived = [], [], {}
        for tool in TOOLS:
            self.say("success", 0, tool)
        for name, policy in live_policies(Proposal.of(STRICT, "sea*", {}), "sea*").items():
            command = Command(tool_name=name, verb="set_policy", actor="ada", policy=policy).to_bytes()
            for partition in range(self.world.partitions):
                self.world.append(command, topic=COMMANDS, partition=partition, seconds=100 + SHIFT, tool_name=name)
        self._fold(100)

    def say(self, status, second, tool="search", **fields):
        self.world.say(status, tool_name=tool, seconds=second + SHIFT, **fields)
        at = START + timedelta(seconds=second)
        self.calls.append(call(tool, status, at, execution_time_ms=0.0, **fields))
        self._fold(second)

    def _fold(self, second):
        self.world.run_all()
        for record in (each for tool in TOOLS for each in self.world.records(tool)):
            if record not in self.records:
                self.arrived[len(self.records)] = START + timedelta(seconds=second)
                self.records.append(record)


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Three failures of ``search`` would open it from 202 to 262: fifty failures and nine successes begin between."""
    recording = Recording()
    for second in range(101, 300):
        recording.say("success", second, "seaside")
        if 200 <= second < 253:
            recording.say("error", second, error_class="server", input_tokens=100)
        else:
            recording.say("success", second)
    at = START + timedelta(seconds=210)
    recording.calls.append(call("search", "rejected", at, metadata={"refused": 17, "refused_by": "local"}))
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as store:
        asyncio.run(store_calls(store, recording.calls))
        asyncio.run(store_circuits(store, recording.records, recording.arrived))
        with serving(store, Settings()) as url, ApiClient(url) as client:
            yield client


def judged(api, glob="sea*", now=DAY_AND_MORE, **options):
    return judging.judge(api, glob, PolicySet(), PRICES, now=now, **options)


@pytest.fixture(scope="module")
def found(api):
    return judged(api)


def row_of(found, circuit_id):
    return next(row for row in found.rows if row.circuit_id == circuit_id)


@pytest.mark.deep
def test_calls_of_the_time_in_which_it_would_have_been_open_are_saved_or_refused_in_error(found):
    row = row_of(found, "search")
    assert row.would_open == 1
    assert (row.calls, row.failed) == (199, 53)
    assert row.would_refuse == 59
    assert (row.saved_calls, row.refused_good) == (50, 9)
    assert row.saved_tokens == 5000
    assert row.saved_usd == pytest.approx(5.0)
    assert row.refused_usd == pytest.approx(4.5)
    assert row.net_usd == pytest.approx(0.5)


@pytest.mark.deep
def test_every_circuit_of_a_glob_is_judged(found):
    assert {row.circuit_id: row.would_open for row in found.rows} == {"search": 1, "seaside": 0}


@pytest.mark.deep
def test_calls_before_the_time_that_is_asked_for_do_not_count(api):
    (row,) = judged(api, "search", since=START + timedelta(seconds=230)).rows
    assert (row.calls, row.failed, row.would_open) == (70, 23, 0)


def test_a_report_after_a_day_says_how_to_enforce_it(found):
    assert judging.sentences(found) == [
        "In 26 h the policy would have opened 1 time and refused 59 calls.",
        "That would have saved 0.50 USD in all.",
        "To enforce it: switchgear policy set 'sea*' mode=enforce",
    ]
    assert judging.document(found)["circuits"][0]["net_usd"] == pytest.approx(0.5)


@pytest.mark.deep
def test_a_policy_that_would_have_cost_more_than_it_saved_is_to_be_taken_back(api):
    found = judging.judge(api, "sea*", PolicySet(), Prices(refused_usd=9.0), now=DAY_AND_MORE)
    assert judging.sentences(found)[-1] == "To take it back: switchgear policy clear 'sea*'"


@pytest.mark.deep
def test_a_report_after_an_hour_says_that_a_day_says_more(api):
    said = judging.sentences(judged(api, now=START + timedelta(seconds=3700)))
    assert said[0].startswith("In 60 min ")
    assert "A whole day says more." in said


def test_a_policy_that_would_have_done_nothing_is_said_to_prove_nothing(found):
    idle = judging.Judgement("seaside", [row_of(found, "seaside")], found.shortest)
    assert "It had nothing to do" in judging.sentences(idle)[-1]


def test_refusals_by_the_breakers_of_processes_are_counted_with_what_was_done(found):
    row = row_of(found, "search")
    assert (row.refused, row.calls) == (17, 199)


@pytest.mark.deep
def test_circuits_that_no_policy_put_into_metrics_only_mode_are_not_judged(api):
    with pytest.raises(TuneError, match=r"No circuit of oth\* is in metrics-only mode by its policy."):
        judged(api, "oth*")


@pytest.mark.deep
def test_the_command_prints_the_comparison(api, capsys):
    assert run(["tune", "sea*", "--judge", "--token-usd", "0.001", "--api-url", api.url]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^circuit +calls +failed +refused +would open +would refuse", printed, re.MULTILINE)
    assert "the policy would have opened" in printed


@pytest.mark.deep
def test_stored_calls_are_searched_as_those_of_a_file_are(api, capsys):
    span = ("--since", START.isoformat(), "--until", (START + timedelta(seconds=400)).isoformat())
    assert run(["tune", "search", *span, "--api-url", api.url, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["calls"], document["verdict"]) == (200, "thin")
    assert document["tools"] == ["search"]
    assert run(["tune", "mcp:*", *span, "--api-url", api.url]) == WRONG_USAGE
    assert "No call is stored of a tool that 'mcp:*' matches." in capsys.readouterr().err
