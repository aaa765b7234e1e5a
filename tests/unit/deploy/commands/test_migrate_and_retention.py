"""`switchgear migrate` and `switchgear retention` on the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.main import run
from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import load_migrations

pytestmark = pytest.mark.slow


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


def test_migrate_makes_the_tables_once_and_names_the_store(ask, tmp_path: Path) -> None:
    names = ", ".join(f"{each.version:04}_{each.name}" for each in load_migrations())
    assert ask("migrate")[1].endswith(f"Applied {names} to {tmp_path}/clickhouse.\n")
    assert ask("migrate")[1] == f"The tables are as they should be in {tmp_path}/clickhouse.\n"
    assert ask("migrate", "--dry-run")[1] == "Nothing to do.\n"


def test_retention_is_set_shown_and_taken_back(ask, tmp_path: Path) -> None:
    ask("migrate")
    code, text, _ = ask("retention", "set", "7", "--tenant", "acme")
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == f"Rows of the tenant acme are kept for 7 days now, in {tmp_path}/clickhouse."
    assert lines[-1].split()[:2] == ["acme", "7"]
    ask("retention", "set", "60", "--new-rows-only")
    assert json.loads(ask("retention", "show", "--json")[1]) == {
        "default_days": 60,
        "default_from": "retention set",
        "tenants": {"acme": 7},
        "store": f"{tmp_path}/clickhouse",
    }
    assert f"{tmp_path}/clickhouse" in ask("retention", "show")[1]
    assert ask("migrate", "--dry-run")[1] == "Nothing to do.\n"
    ask("retention", "reset", "--tenant", "acme")
    assert ask("retention", "reset")[1].startswith(f"The days are the default again, in {tmp_path}/clickhouse.")
    assert json.loads(ask("retention", "show", "--json")[1])["default_from"] == "the setting retention_days"


@pytest.fixture
def default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the data would be by default; the API's default address is one where nothing listens."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWITCHGEAR_API_HTTP", f"127.0.0.1:{any_free_port()}")
    return load_settings().data_dir


@pytest.mark.parametrize("url", [None, "chdb:"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("migrate",), 2),
        (("migrate", "--dry-run"), 2),
        (("migrate", "--tenant-reader", "a=b"), 2),
        (("retention", "show"), 1),
        (("retention", "set", "7"), 1),
        (("retention", "reset"), 1),
    ],
)
def test_no_command_opens_the_default_folder_by_itself(
    default_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str | None,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    if url is not None:
        monkeypatch.setenv("SWITCHGEAR_CLICKHOUSE_URL", url)
    assert run(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "--data-dir" in shown.err
    assert "--clickhouse" in shown.err
    assert not default_folder.exists()


@pytest.mark.deep
def test_the_data_of_an_up_that_does_not_run_are_opened_where_they_are_named(
    tmp_path: Path, default_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    assert run(["retention", "set", "7", "--data-dir", str(folder)]) == 1
    assert f"no tables of Switchgear in {folder}/clickhouse" in capsys.readouterr().err
    assert not folder.exists(), "a mistyped name makes no folder"
    assert run(["migrate", "--data-dir", str(folder)]) == 0
    assert run(["retention", "set", "7", "--data-dir", str(folder)]) == 0
    assert capsys.readouterr().out.count(f"{folder}/clickhouse.\n") == 2
    assert run(["migrate", "--data-dir", str(folder), "--clickhouse", "chdb:/x"]) == 2
    assert not default_folder.exists()


def test_a_folder_without_tables_gets_none_from_retention(ask, tmp_path: Path) -> None:
    (tmp_path / "clickhouse").mkdir()
    for arguments in (("show",), ("set", "7"), ("reset",)):
        code, _, error = ask("retention", *arguments)
        assert code == 1
        assert "There are no tables of Switchgear in" in error
        assert "switchgear migrate" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("retention", "set", "0"), "The retention must be from 1 to 3650 days, got 0."),
        (("migrate", "--tenant-reader", "acme=u"), "The embedded ClickHouse engine has no users."),
        (("migrate", "--tenant-reader", "acme"), "--tenant-reader must be TENANT=USER"),
        (
            ("migrate", "--cluster", "main"),
            "clickhouse_cluster is 'main', but clickhouse_url names the embedded engine.",
        ),
    ],
)
def test_a_wrong_option_of_migrate_or_retention_is_one_sentence(ask, arguments: tuple[str, ...], sentence: str) -> None:
    if arguments[0] == "retention":
        ask("migrate")
    code, _, error = ask(*arguments)
    assert code == 1
    assert sentence in error
