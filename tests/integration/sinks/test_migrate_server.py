"""`switchgear migrate` against a server: what would run on a cluster, and what a refusal says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.main import run
from tests.support.clickhouse_http import ClickHouseServer, clickhouse_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    with clickhouse_server(tmp_path_factory.mktemp("server"), any_free_port()) as running:
        yield running


def test_a_dry_run_shows_what_would_run_on_a_cluster(
    server: ClickHouseServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["migrate", "--dry-run", "--cluster", "main", "--clickhouse", f"{server.url}/fresh"])
    text = capsys.readouterr().out
    assert code == 0
    assert text.startswith("CREATE DATABASE IF NOT EXISTS `fresh` ON CLUSTER `main`;")
    assert "ReplicatedMergeTree" in text
    statements = [part for part in text.split(";\n") if part.strip()]
    assert all("ON CLUSTER `main`" in part or part.strip().startswith("INSERT") for part in statements)


def test_tables_are_made_on_a_server_and_the_days_set_there(
    server: ClickHouseServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{server.url}/made"
    assert run(["migrate", "--clickhouse", url]) == 0
    assert run(["retention", "set", "7", "--tenant", "acme", "--clickhouse", url]) == 0
    capsys.readouterr()
    assert run(["retention", "show", "--json", "--clickhouse", url]) == 0
    assert '"acme": 7' in capsys.readouterr().out
    assert run(["migrate", "--dry-run", "--clickhouse", url]) == 0
    assert capsys.readouterr().out == "Nothing to do.\n"


@pytest.mark.deep
def test_without_the_right_to_manage_users_a_reader_is_one_sentence(
    server: ClickHouseServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine behind the test server has no users to manage: it refuses as a server does."""
    code = run(["migrate", "--tenant-reader", "acme=acme_sql", "--clickhouse", f"{server.url}/made"])
    error = capsys.readouterr().err
    assert code == 1
    assert "failed: " in error
    assert "Connect as a user with access_management" in error
    assert "Traceback" not in error
