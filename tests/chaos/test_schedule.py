"""The schedule of faults: the seed decides all of it."""

import itertools

import pytest

from tests.chaos.faults.all_kinds import KINDS
from tests.chaos.schedule import RECOVER_S, Span, missing, plan

pytestmark = pytest.mark.deep

SPANS = {name: kind.span for name, kind in KINDS.items()}
WANTED = {
    *(f"{role}-{what}" for role in ("worker", "sink", "emitter", "gateway") for what in ("kill", "end", "sleep")),
    *("broker-kill", "broker-end", "brokers-kill", "brokers-end", "leader-kill", "rebalance-storm", "clock-off"),
    *(
        f"net-{what}-{whom}"
        for what in ("slow", "cut")
        for whom in ("worker", "sink", "client", "replica", "clickhouse")
    ),
    "net-cut-gateway",
    *(f"clickhouse-{what}" for what in ("refuses", "slow", "breaks-off", "gone")),
    *(f"input-{what}" for what in ("again", "misdirected", "late", "out-of-order", "junk")),
    *(f"poison-{what}" for what in ("oversized", "keys", "headers", "unreadable", "state", "policies")),
}


def test_the_schedule_knows_every_kind_of_fault():
    assert set(KINDS) == WANTED


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another():
    assert plan(7, 600, SPANS) == plan(7, 600, SPANS)
    assert plan(7, 600, SPANS) != plan(8, 600, SPANS)


@pytest.mark.parametrize("seed", range(40))
def test_ten_minutes_hold_every_kind_and_forty_faults_or_more(seed):
    planned = plan(seed, 600, SPANS)
    assert not missing(planned, SPANS)
    assert len(planned) >= 40


@pytest.mark.parametrize("seed", range(10))
def test_faults_of_one_domain_never_overlap_and_those_of_different_domains_do(seed):
    planned = plan(seed, 600, SPANS)
    overlapping = 0
    for before, after in itertools.combinations(planned, 2):
        overlaps = after.at < before.at + before.seconds
        if SPANS[before.kind].domain == SPANS[after.kind].domain:
            assert after.at >= round(before.at + before.seconds, 1) + RECOVER_S - 0.2
        overlapping += overlaps
    assert overlapping > 0


def test_every_fault_begins_and_ends_within_the_time():
    for planned in (plan(seed, seconds, SPANS) for seed in range(10) for seconds in (5, 30, 120)):
        assert all(fault.at >= 0 for fault in planned)
    for seconds in (30, 120):
        assert all(fault.at + fault.seconds <= seconds + 0.1 for fault in plan(3, seconds, SPANS))


def test_a_time_too_short_for_all_kinds_says_which_are_missing():
    planned = plan(1, 30, SPANS)
    assert 0 < len(planned) < len(SPANS)
    assert len(missing(planned, SPANS)) == len(SPANS) - len({fault.kind for fault in planned})


def test_a_kind_whose_domain_is_busy_waits():
    spans = {"a": Span("one", 20, 20), "b": Span("one", 1, 1)}
    planned = plan(1, 60, spans, mean_gap_s=2)
    assert len(planned) >= 3
    for before, after in itertools.pairwise(planned):
        assert after.at >= before.at + before.seconds + RECOVER_S
