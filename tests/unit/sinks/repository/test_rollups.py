"""All tools over a long period, from the rollups: the same counts as from the raw rows, to the call."""

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import ToolMetricsRepository
from tests.support.engine import call, store_calls
from tests.support.table import table

START = datetime(2026, 3, 1, 9, 59, 58, 500000, tzinfo=UTC)
EXACT = (
    "total_calls", "success_count", "error_count", "timeout_count", "rejected_count", "success_rate", "caller_error_count",
    "cancelled_count", "min_time_ms", "max_time_ms", "total_input_bytes", "total_output_bytes",
)  # fmt: skip
ENDINGS = (
    ("success", None), ("error", None), ("error", "server"), ("error", "invalid_input"), ("timeout", "auth"), ("timeout", None),
    ("cancelled", "cancelled"), ("cancelled", None), ("rejected", None), ("success", "policy"),
)  # fmt: skip


def judged(each) -> bool:
    return each["status"] not in {"rejected", "cancelled"} and each.get("error_class") not in {
        "invalid_input",
        "auth",
        "policy",
    }


@pytest.fixture
async def calls(store):
    chance = random.Random(7)
    endings = chance.choices(ENDINGS, (68, 4, 4, 6, 2, 4, 3, 2, 5, 2), k=3000)
    stored = [
        call(
            chance.choice(("a", "b", "rare" if n % 50 == 0 else "c")),
            status,
            START + timedelta(seconds=chance.uniform(-700, 4 * 3600 + 700)),
            execution_time_ms=round(chance.lognormvariate(5, 1), 3),
            input_size=chance.randrange(10_000),
            output_size=chance.randrange(10_000),
            cost_usd=chance.randrange(100) / 1000,
            tenant=chance.choice(("", "acme")),
            error_class=error_class,
        )
        for n, (status, error_class) in enumerate(endings)
    ]
    await store_calls(store, stored)
    return stored


@table(
    ("since", "hours", "tenant"),
    itertools.product(
        [START, START.replace(second=0, microsecond=0), START.replace(second=59, microsecond=999_999)],
        [2, 4],
        [None, "acme", "nobody"],
    ),
)
async def test_rollups_have_the_same_counts_as_the_rows(store, calls, since, hours, tenant):
    repository = ToolMetricsRepository(store, tenant=tenant)
    until = since + timedelta(hours=hours, seconds=17)
    rolled = await repository.get_all_tool_stats(since, until)
    raw = {name: await repository.get_tool_stats(name, since, until) for name in rolled}
    assert {name: {key: each[key] for key in EXACT} for name, each in rolled.items()} == {
        name: {key: each[key] for key in EXACT} for name, each in raw.items()
    }
    assert set(rolled) == (set() if tenant == "nobody" else {"a", "b", "c", "rare"})
    for name, each in rolled.items():
        assert each["avg_time_ms"] == pytest.approx(raw[name]["avg_time_ms"], abs=0.001)
        assert each["avg_cancelled_ms"] == pytest.approx(raw[name]["avg_cancelled_ms"], abs=0.001)
        assert each["total_cost_usd"] == pytest.approx(raw[name]["total_cost_usd"])


async def test_any_period_is_counted_to_the_microsecond(store, calls):
    """Hours, minutes and raw rows side by side: with ragged ends, on the hour, within one hour, and open at the end."""
    chance = random.Random(11)
    hour = START.replace(hour=10, minute=0, second=0, microsecond=0)
    moments = [
        *(hour + timedelta(hours=n) for n in range(-1, 5)),
        *(hour + timedelta(hours=n, microseconds=n - 1) for n in range(3)),
        *(hour + timedelta(minutes=chance.randrange(-60, 250)) for _ in range(6)),
        *(datetime.fromisoformat(each["recorded_at"]) for each in chance.sample(calls, 6)),
    ]
    periods = [(since, until) for since in moments for until in (*chance.sample(moments, 3), None)]
    recorded = [(datetime.fromisoformat(each["recorded_at"]), each) for each in calls]
    repository = ToolMetricsRepository(store)
    for since, until in periods:
        rolled = await repository.get_all_tool_stats(since, until)
        for name in ("a", "b", "c", "rare"):
            within = [
                each
                for at, each in recorded
                if each["tool_name"] == name and at >= since and (until is None or at <= until)
            ]
            made = [each for each in within if each["status"] != "rejected"]
            if not within:
                assert name not in rolled
                continue
            found = rolled[name]
            assert found["rejected_count"] == len(within) - len(made), (since, until)
            assert found["total_calls"] == len(made), (since, until)
            assert found["error_count"] == sum(each["status"] == "error" for each in made)
            assert found["total_input_bytes"] == sum(each["input_size"] for each in within)
            assert found["cancelled_count"] == sum(each["status"] == "cancelled" for each in made)
            assert found["caller_error_count"] == sum(
                each["status"] in {"error", "timeout"} and not judged(each) for each in made
            )
            assert found["max_time_ms"] == max((each["execution_time_ms"] for each in made if judged(each)), default=0)
    assert {until is None for _, until in periods} == {True, False}


async def test_statistics_of_one_tool_equal_its_part_of_all_tools(store, calls):
    since = START.replace(second=0, microsecond=0)
    repository = ToolMetricsRepository(store)
    everything = await repository.get_all_tool_stats(since)
    assert await repository.get_all_tool_stats(since, tool_name="rare") == {"rare": everything["rare"]}
    assert await repository.get_all_tool_stats(since, tool_name="nobody") == {}


async def test_percentiles_of_the_histograms_are_within_a_bucket(store):
    chance = random.Random(8)
    durations = sorted(chance.lognormvariate(5, 1) for _ in range(5000))
    since = START.replace(minute=0, second=0, microsecond=0)
    await store_calls(
        store,
        [call("a", at=since + timedelta(seconds=n), execution_time_ms=each) for n, each in enumerate(durations)],
    )
    stats = (await ToolMetricsRepository(store).get_all_tool_stats(since, since + timedelta(hours=3)))["a"]
    for key, quantile in (("p50_time_ms", 0.5), ("p95_time_ms", 0.95), ("p99_time_ms", 0.99)):
        assert stats[key] == pytest.approx(durations[int(quantile * len(durations))], rel=0.09), key


async def test_a_tool_with_refused_calls_only_has_no_times(store):
    await store_calls(store, [call("a", "rejected", START + timedelta(hours=1))] * 4)
    stats = (await ToolMetricsRepository(store).get_all_tool_stats(START, START + timedelta(hours=3)))["a"]
    assert (stats["total_calls"], stats["rejected_count"]) == (0, 4)
    assert (stats["avg_time_ms"], stats["min_time_ms"], stats["max_time_ms"], stats["p99_time_ms"]) == (0, 0, 0, 0)


async def test_a_short_period_is_read_from_the_rows(store):
    await store_calls(store, [call("a", at=START, execution_time_ms=100), call("a", at=START, execution_time_ms=104)])
    stats = (await ToolMetricsRepository(store).get_all_tool_stats(START, START + timedelta(minutes=1)))["a"]
    assert stats == await ToolMetricsRepository(store).get_tool_stats("a", START, START + timedelta(minutes=1))


@pytest.mark.parametrize("hours", [0.5, 1, 24])
async def test_period_from_a_whole_minute_reads_no_raw_row(store, calls, hours):
    since = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=hours)
    await store_calls(store, [call("late", at=since), call("late", "error", since - timedelta(microseconds=1))])
    repository = ToolMetricsRepository(store)
    before = await repository.get_all_tool_stats(since)
    assert before["late"]["total_calls"] == 1
    assert {name: each["total_calls"] for name, each in before.items()} == {
        name: (await repository.get_tool_stats(name, since))["total_calls"] for name in before
    }
    await store.command("TRUNCATE TABLE tool_metrics")
    assert await repository.get_all_tool_stats(since) == before


async def test_one_tools_hour_is_found_by_the_primary_key(store, calls):
    plan = await store.query(
        "EXPLAIN indexes = 1 SELECT count() FROM tool_metrics WHERE tool_name = 'a' "
        "AND recorded_at >= fromUnixTimestamp64Micro(1772359198500000, 'UTC')"
    )
    text = "\n".join(row[0] for row in plan.result_rows)
    assert "PrimaryKey" in text
    assert "tool_name" in text.partition("PrimaryKey")[2]
