"""Real RPC calls under injected faults: circuits open when they should, and only then.

The policy is learned from the minutes before the first fault; everything after them is unseen.
"""

from __future__ import annotations

from collections import Counter

import pytest

from switchgear.policies import PolicySet
from tests.bench.breaker_nezha import calls_of, evaluated, learned_policies
from tests.bench.nezha_policy import LEARNED_FROM, LEARNED_UNTIL, as_tables, as_toml, learned, worst_share
from tests.support.shared import REPOSITORY, shared_folder

POLICY = REPOSITORY / "deploy" / "policies" / "latency.toml"
RETURN_AT = 1_661_140_927.0
"""2022-08-22 04:02:07. From here on a function of the frontend returns early."""


@pytest.fixture(scope="module")
def history():
    return shared_folder() / "data" / "rpc_calls_nezha.jsonl.gz"


@pytest.fixture(scope="module")
def table(history):
    return evaluated(history, history.with_name("nezha_faults.json"), PolicySet.load(POLICY).effective)


@pytest.mark.deep
@pytest.mark.shared
def test_the_policy_that_we_ship_is_the_one_that_the_minutes_before_the_first_fault_give(history):
    shipped, made = PolicySet.load(POLICY), learned_policies(history)
    assert set(shipped.patterns) == set(made.patterns)
    assert all(shipped.effective(tool) == made.effective(tool) for tool in made.patterns)


@pytest.mark.deep
@pytest.mark.shared
def test_six_tools_open_within_forty_seconds_of_the_cpu_contention(table):
    rows = table["faults"]["2022-08-22 03:53:54 cpu_contention"]
    assert {row.tool for row in rows if row.seconds <= 40} == {
        "hipstershop.AdService/GetAds",
        "hipstershop.CartService/GetCart",
        "hipstershop.ProductCatalogService/GetProduct",
        "hipstershop.ProductCatalogService/ListProducts",
        "hipstershop.RecommendationService/ListRecommendations",
        "hipstershop.ShippingService/GetQuote",
    }
    assert min(row.seconds for row in rows) < 10


@pytest.mark.deep
@pytest.mark.shared
def test_nothing_opens_with_no_fault_near(table):
    assert table["no fault near"] == []


@pytest.mark.deep
@pytest.mark.shared
def test_a_function_that_returns_early_opens_nothing(table):
    assert table["faults"]["2022-08-22 04:02:07 return"] == []


@pytest.mark.shared
def test_a_function_that_returns_early_leaves_missing_and_fast_calls_but_no_slow_ones(history):
    before, after = Counter(), Counter()
    fast = {"before": 0, "after": 0}
    ads, page = "hipstershop.AdService/getAdsByCategory", "hipstershop.Frontend/Recv."
    for at, tool, duration_ms in calls_of(history):
        if RETURN_AT - 45 <= at < RETURN_AT:
            before[tool] += 1
            fast["before"] += tool == page and duration_ms < 2
        elif RETURN_AT + 5 <= at < RETURN_AT + 50:
            after[tool] += 1
            fast["after"] += tool == page and duration_ms < 2
    assert before[ads] > 200
    assert after[ads] == 0
    assert fast["before"] / before[page] < 0.1
    assert fast["after"] / after[page] > 0.5
    thresholds = learned(calls_of(history))
    for tool, values in thresholds.items():
        seen = [(at, ms) for at, name, ms in calls_of(history) if name == tool and at >= RETURN_AT]
        assert worst_share(seen, values["slow_call_duration_threshold_ms"]) < 0.07


def calls(count, duration_of, since=LEARNED_FROM):
    return [(since + place * 0.1, "t", duration_of(place)) for place in range(count)]


def test_thresholds_come_from_the_minutes_before_the_first_fault_alone():
    healthy = calls(900, lambda _: 10.0)
    broken = calls(500, lambda _: 9_999.0, LEARNED_UNTIL)
    assert learned(healthy + broken) == learned(healthy)
    assert learned(healthy) == {"t": {"slow_call_duration_threshold_ms": 20.0, "slow_call_rate_threshold": 0.1}}


def test_a_tool_that_has_bad_moments_in_health_is_given_room_for_them():
    bursts = calls(900, lambda place: 100.0 if 300 <= place < 308 else 10.0)
    assert learned(bursts)["t"] == {"slow_call_duration_threshold_ms": 20.0, "slow_call_rate_threshold": 0.16}


def test_a_tool_with_few_calls_has_no_policy():
    assert learned(calls(199, lambda _: 10.0)) == {}


def test_what_is_learned_is_a_policy_file(tmp_path):
    path = tmp_path / "p.toml"
    thresholds = learned(calls(900, lambda _: 10.0))
    path.write_text(as_toml(thresholds))
    assert PolicySet.load(path).effective("t") == PolicySet(*as_tables(thresholds)).effective("t")
