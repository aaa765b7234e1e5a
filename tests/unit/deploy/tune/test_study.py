"""A search finds a policy that costs less, and says when it can't."""

from __future__ import annotations

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.tune import report
from switchgear_cli.tune.cost import Prices
from switchgear_cli.tune.study import study
from tests.support.table import table
from tests.support.tuning import OUTAGES, logged, made, outage, recorded

pytestmark = pytest.mark.slow

ALWAYS = PolicySet({"cusum": "off", "failure_rate_threshold": "off"}, source="never opens")


def searched(calls, *, present=ALWAYS, glob="search", outages=None, prices=None, candidates=20, seed=1, processes=1):
    steps = []
    found = study(
        logged(calls),
        glob,
        present,
        outages=outages,
        prices=prices or Prices(),
        candidates=candidates,
        seed=seed,
        processes=processes,
        on_start=steps.append,
        on_done=lambda: steps.append(1),
    )
    assert not steps or steps[0] == sum(steps[1:]) == candidates + 2
    return found


def test_a_policy_tuned_on_two_outages_costs_less_in_the_two_after_them():
    found = searched(recorded())
    assert found.verdict == "better"
    assert (len(found.outages), found.tuned_on.outages, found.judged_on.outages) == (4, 2, 2)
    present, best = found.tried[0], found.tried[found.best]
    assert best.tuned.total_usd == min(each.tuned.total_usd for each in found.tried)
    assert best.judged.total_usd < present.judged.total_usd / 2
    assert best.judged.opens >= 2
    assert found.proposed


@pytest.mark.deep
def test_a_tool_that_is_only_slow_gets_a_slow_call_rule_and_keeps_its_failure_rules():
    found = searched(recorded(slow_ms=3000, failing=0.8), present=PolicySet())
    assert found.tuned_on.failed == 0
    assert found.verdict == "better"
    (values,) = found.proposal.tables.values()
    assert values["slow_call_duration_threshold_ms"] < 3000
    assert not {"cusum", "failure_rate_threshold", "consecutive_failures"} & values.keys()


@pytest.mark.deep
def test_the_same_seed_gives_the_same_answer_in_one_process_and_in_two():
    calls = recorded(seconds=1600, outages=[(300, 360), (1000, 1060)])
    one, again, two = (searched(calls, candidates=6, processes=number) for number in (1, 1, 2))
    assert report.document(one) == report.document(again) == report.document(two)
    assert report.document(searched(calls, candidates=6, seed=2)) != report.document(one)


def test_outages_that_a_person_knows_take_the_place_of_estimates():
    given = [outage(600, 700), outage(2400, 2500), outage(9000, 9100)]
    found = searched(recorded(), outages=given, candidates=2)
    assert list(found.outages) == given[:2]  # the third is after the history
    assert (found.tuned_on.outages, found.judged_on.outages) == (1, 1)


def test_outages_of_two_tools_at_one_time_are_one_incident():
    found = searched(recorded() + recorded(tool="fetch", seed=2), glob="*", candidates=2)
    assert (found.tuned_on.outages, found.tuned_on.incidents) == (4, 2)


@table(
    ("calls", "failed"),
    [
        (recorded(()), 1),
        (recorded((), usually=0.3), 1),
        (recorded(((3200, 3300),)), 1),
        ([made(second, "error") for second in range(150)], 1),
        (recorded((), usually=0.0), 0),
    ],
    ids=["healthy", "always failing a little", "an outage only in the second half", "few calls", "no failure"],
)
def test_without_an_outage_in_the_first_half_evidence_is_thin_and_nothing_is_proposed(calls, failed):
    found = searched(calls)
    assert (found.verdict, found.proposed, list(found.tried)) == ("thin", False, [])
    assert (found.failed > 0) == bool(failed)


@pytest.mark.deep
def test_a_best_of_the_first_half_that_costs_more_on_the_second_is_not_proposed():
    first, second = OUTAGES[:2], [(2400, 2430), (2500, 2530), (2600, 2630), (2700, 2730)]
    calls = recorded([*first, *second], failing=1.0, per_second=4)
    prices = Prices(refused_usd=0.05)
    found = searched(calls, outages=[outage(*each) for each in first], prices=prices)
    assert found.verdict == "worse"
    assert not found.proposed
    assert found.tried[found.best].judged.false_opens > 0


@pytest.mark.deep
def test_the_present_policy_is_kept_where_refusing_costs_too_much():
    found = searched(recorded(failing=0.5), prices=Prices(refused_usd=1000))
    assert (found.verdict, found.best, found.proposal) == ("keep", 0, None)
