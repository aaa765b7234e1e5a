"""`switchgear migrate` and `switchgear retention` on the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchgear_cli.main import run


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run a command on an engine of its own: exit code, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([*arguments, "--clickhouse", f"chdb:{tmp_path}/clickhouse"])
        return (code, *capsys.readouterr())

    return call


def test_a_dry_run_prints_every_statement_and_makes_nothing(ask) -> None:
    code, first, _ = ask("migrate", "--dry-run")
    assert code == 0
    assert first.startswith(
        "CREATE DATABASE IF NOT EXISTS `switchgear`;\n\nCREATE TABLE IF NOT EXISTS schema_migrations"
    )
    assert "CREATE TABLE IF NOT EXISTS tool_metrics" in first
    assert ask("migrate", "--dry-run")[1] == first


def test_migrate_makes_the_tables_once(ask) -> None:
    assert ask("migrate")[1].endswith("migrations applied.\n")
    assert ask("migrate")[1] == "The tables are as they should be.\n"
    assert ask("migrate", "--dry-run")[1] == "Nothing to do.\n"


def test_retention_is_set_shown_and_taken_back(ask) -> None:
    code, text, _ = ask("retention", "set", "7", "--tenant", "acme")
    assert code == 0
    assert [line.split()[:2] for line in text.splitlines()[-1:]] == [["acme", "7"]]
    ask("retention", "set", "60", "--new-rows-only")
    assert json.loads(ask("retention", "show", "--json")[1]) == {
        "default_days": 60,
        "default_from": "retention set",
        "tenants": {"acme": 7},
    }
    assert ask("migrate", "--dry-run")[1] == "Nothing to do.\n"
    ask("retention", "reset", "--tenant", "acme")
    ask("retention", "reset")
    assert json.loads(ask("retention", "show", "--json")[1])["default_from"] == "the setting retention_days"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("retention", "set", "0"), "The retention must be from 1 to 3650 days, got 0."),
        (("migrate", "--tenant-reader", "acme=u"), "The embedded ClickHouse engine has no users."),
        (("migrate", "--tenant-reader", "acme"), "--tenant-reader must be TENANT=USER"),
        (
            ("migrate", "--cluster", "main"),
            "clickhouse_cluster names a cluster, but clickhouse_url the embedded engine.",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(ask, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, error = ask(*arguments)
    assert code == 1
    assert sentence in error
