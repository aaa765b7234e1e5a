"""``switchgear replay --from-clickhouse`` over the real API and the real engine, page by page."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.main import FAILED, WRONG_USAGE, run
from switchgear_schemas.settings import Settings
from tests.support.api import serving
from tests.support.engine import call, migrated_store, store_calls

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def calls():
    """Return 250 calls, one per second, with three at one instant every tenth second. The tool breaks after 100 calls."""
    for number in range(250):
        at = START + timedelta(seconds=number, microseconds=123)
        status = "error" if 100 <= number < 150 else "success"
        more = {"error_class": "server", "input_tokens": 7} if status == "error" else {}
        for _ in range(3 if number % 10 == 0 else 1):
            yield call("mcp:weather", status, at, execution_time_ms=12.5, emitter_id="planner", **more)


@pytest.fixture(scope="module")
def api_url(tmp_path_factory):
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as store:
        asyncio.run(store_calls(store, calls()))
        with serving(store, Settings(sql_max_rows=130)) as url:
            yield url


def replayed(capsys, api_url, *more):
    assert run(["replay", "--from-clickhouse", "--api-url", api_url, *more]) == 0
    return capsys.readouterr().out


RANGE = ("--since", "2026-03-01T12:00:00", "--until", "2026-03-01T13:00:00")


def test_stored_calls_replay_as_the_file_of_the_same_calls_does(api_url, capsys, tmp_path):
    stored = replayed(capsys, api_url, *RANGE)
    path = tmp_path / "same.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in calls()))
    assert run(["replay", str(path)]) == 0
    assert stored == capsys.readouterr().out
    summary = json.loads(stored.splitlines()[-1])["summary"]
    assert (summary["calls"], summary["failed"]) == (300, 60)
    assert summary["opens"] == 1
    assert summary["refused"]["tokens_avoided"] == 7 * summary["refused"]["failed"] > 0


def test_since_is_included_and_until_is_not(api_url, capsys):
    out = replayed(capsys, api_url, "--since", "2026-03-01T12:00:01.000123", "--until", "2026-03-01T12:00:09.000123")
    assert json.loads(out.splitlines()[-1])["summary"]["calls"] == 8


@pytest.mark.deep
def test_without_a_range_the_last_hour_is_read(api_url, capsys):
    assert run(["replay", "--from-clickhouse", "--api-url", api_url]) == FAILED
    assert "No call is stored that ended from " in capsys.readouterr().err
    out = replayed(capsys, api_url, "--until", "2026-03-01T12:30:00")
    assert json.loads(out.splitlines()[-1])["summary"]["calls"] > 0
    assert run(["replay", "--from-clickhouse", "--since", "90d", "--until", "89d", "--api-url", api_url]) == FAILED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "Give either a file or --from-clickhouse."),
        (["replay", "some.jsonl", "--from-clickhouse"], "Give either a file or --from-clickhouse."),
        (["replay", "--from-clickhouse", "--since", "2026-03-02", "--until", "2026-03-01"], "is not after"),
        (["replay", "--from-clickhouse", "--since", "yesterday"], "--since 'yesterday' is neither a duration nor"),
        (["replay", "some.jsonl", "--since", "2h"], "--since and --until choose among the stored calls."),
    ],
)
def test_impossible_options_of_a_replay_from_clickhouse_are_wrong_usage(api_url, capsys, arguments, message):
    assert run([*arguments, "--api-url", api_url]) == WRONG_USAGE
    assert message in capsys.readouterr().err
