"""Real RPC calls under faults that were injected on purpose: do circuits open when they should, and only then?"""

from __future__ import annotations

import json

import pytest

from switchgear.policies import PolicySet
from tests.bench.breaker_nezha import fault_table, faults_within, opens_of
from tests.support.shared import REPOSITORY, shared_folder

pytestmark = pytest.mark.shared
POLICY = REPOSITORY / "deploy" / "policies" / "latency.toml"


@pytest.fixture(scope="module")
def table():
    data = shared_folder() / "data"
    opens, first, last = opens_of(data / "rpc_calls_nezha.jsonl.gz", PolicySet.load(POLICY))
    return fault_table(opens, faults_within(json.loads((data / "nezha_faults.json").read_text()), first, last))


def test_six_tools_open_within_twenty_seconds_of_the_cpu_contention(table):
    rows = table["faults"]["2022-08-22 03:53:54 cpu_contention"]
    assert {row.tool for row in rows if row.seconds <= 20} == {
        "hipstershop.Frontend/Recv.",
        "hipstershop.ProductCatalogService/GetProduct",
        "hipstershop.CartService/GetCart",
        "hipstershop.ShippingService/GetQuote",
        "hipstershop.RecommendationService/ListRecommendations",
        "hipstershop.AdService/GetAds",
    }


def test_a_function_that_returns_early_leaves_no_trace_in_latency(table):
    assert table["faults"]["2022-08-22 04:02:07 return"] == []


def test_nothing_opens_with_no_fault_near(table):
    assert table["no fault near"] == []
