"""What a search says to a person and to a program."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from switchgear.policies import PolicySet
from switchgear_cli.tune import report
from switchgear_cli.tune.calls import CallLog
from switchgear_cli.tune.cost import Cost, Prices
from switchgear_cli.tune.study import Tried, study
from tests.support.table import table
from tests.support.tuning import logged, recorded

pytestmark = pytest.mark.slow

NEVER = PolicySet({"cusum": "off", "failure_rate_threshold": "off"}, source="never opens")


def searched(log, *, glob="search", prices=None):
    return study(
        log, glob, NEVER, outages=None, prices=prices or Prices(), candidates=12, seed=1, processes=1,
        on_start=lambda _total: None, on_done=lambda: None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return searched(logged(recorded()))


def text(found):
    console = Console(width=300)
    with console.capture() as captured:
        console.print(report.table(found), highlight=False)
    return captured.get()


@pytest.mark.slow
def test_the_table_has_the_present_policy_the_default_the_best_and_its_neighbours(found):
    shown = report.shown(found)
    assert shown[:2] == [0, 1]
    assert found.best in shown
    assert len(shown) <= 5
    printed = text(found)
    assert "8,000 calls of 1 tool from 2026-03-01 12:00:00 to 2026-03-01 13:06:39 UTC; 4 outages estimated." in printed
    assert f"{found.tried[found.best].name} (best)" in printed
    assert f"Proposed: {found.tried[found.best].name}. On the second half it costs" in printed
    assert '[tools."search"]' in printed


def test_no_policy_of_the_front_is_beaten_in_both_waste_and_refusals(found):
    line = report.front(found, "tuned")
    assert found.best in line
    costs = [each.tuned for each in found.tried]
    for place in line:
        mine = costs[place]
        assert not any(
            other.wasted_usd < mine.wasted_usd and other.refusing_usd <= mine.refusing_usd for other in costs
        )
    wasted = [costs[place].wasted_usd for place in line]
    assert wasted == sorted(wasted, reverse=True)


def test_the_document_is_json_with_the_costs_and_the_proposal(found):
    document = json.loads(json.dumps(report.document(found)))
    assert document["verdict"] == "better"
    assert document["proposal"]["search"]["wait_duration_in_open_state_s"] > 0
    best = next(row for row in document["rows"] if row["best"])
    parts = (best["judged"][part] for part in ("wasted_usd", "refused_usd", "delay_usd"))
    assert best["judged"]["total_usd"] == pytest.approx(sum(parts), abs=1e-5)
    assert document["outages"][0] == {
        "tool": "search",
        "start": document["outages"][0]["start"],
        "end": document["outages"][0]["end"],
    }
    assert document["outages"][0]["start"].startswith("2026-03-01T12:")


@pytest.mark.slow
def test_thin_evidence_is_said_with_its_numbers():
    printed = text(searched(logged(recorded((), usually=0.1))))
    assert "Too little evidence: nothing is proposed." in printed
    assert "Each half needs 200 calls, and the first half an outage with 20 bad calls." in printed
    assert "Tuned on the first half (4,000 calls, 0 outages with 0 bad calls)" in printed
    assert "hardly more at one time than at another: that shows no outage." in printed
    assert "[tools." not in printed


@pytest.mark.slow
def test_few_incidents_and_calls_that_were_refused_are_noted():
    log = logged(recorded([(600, 700)]))
    printed = text(searched(CallLog(log.calls, never_made=7, stamped=3)))
    assert "Note: the first half has only 1 incident" in printed
    assert "It shows what a policy refuses wrongly, but hardly what it saves." in printed
    assert "Note: 7 calls were refused at that time. Their cost is not known." in printed
    assert "are made up by --stamp." in printed


@pytest.mark.slow
def test_an_outage_across_the_middle_is_noted_with_what_the_calls_after_it_cost():
    found = searched(logged(recorded([(600, 700), (1900, 2100)])))
    assert "1 outage lasted from the first half into the second. On the 3,8" in text(found)
    shared = report.document(found)["overlap"]
    assert shared["calls_after"] == pytest.approx(3800, abs=20)
    assert shared["best"]["calls"] == shared["calls_after"]
    assert shared["present"]["total_usd"] == 0  # it never opens, and nothing was down


@pytest.mark.parametrize(
    ("grew", "words"),
    [
        ("wasted_usd", "it lets through more calls that waste something"),
        ("refused_usd", "it refuses more calls that would have succeeded"),
        ("delay_usd", "it recovers later"),
    ],
)
def test_a_best_that_costs_more_later_is_explained_by_the_part_that_grew_most(grew, words):
    before = Cost(wasted_usd=1.0, refused_usd=1.0, delay_usd=1.0)
    after = Cost(**{"wasted_usd": 1.0, "refused_usd": 1.1, "delay_usd": 0.9} | {grew: 2.0})
    assert report.why_worse(Tried("present", before, before), Tried("#1", before, after)) == words


@table(("amount", "shown"), [(0, "0"), (0.01234, "0.012"), (1.234, "1.23"), (12345.6, "12,346"), (-0.5, "-0.50")])
def test_money_has_as_many_digits_as_matter(amount, shown):
    assert report.usd(amount) == shown
