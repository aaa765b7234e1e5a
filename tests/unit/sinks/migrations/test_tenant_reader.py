"""The statements of a tenant's reader. The embedded engine has no users: here they are parsed by it, and read, not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import Layout, load_migrations, tenant_reader
from switchgear_sinks.migrations.tenant_reader import TENANT_TABLES, TENANT_VIEWS, check_policies, quoted
from switchgear_sinks.store import open_store
from tests.support.table import table


def made(tenant: str = "acme", user: str = "acme_sql", password: str | None = "secret", **layout) -> list[str]:
    return tenant_reader(tenant, user, password, "switchgear", "default", Layout(**layout))


def test_tenant_reader_may_only_select() -> None:
    granted = [statement for statement in made() if statement.startswith("GRANT") and " ON " in statement]
    assert len(granted) == len(TENANT_TABLES) + len(TENANT_VIEWS)
    for statement in granted:
        assert re.fullmatch(r"GRANT SELECT ON `switchgear`\.`\w+` TO `switchgear_reader_acme`", statement)
    assert "SETTINGS readonly = 1" in made()[0]


@table("table", TENANT_TABLES)
def test_every_table_shows_the_tenants_rows_to_the_reader_and_all_to_switchgear(table: str) -> None:
    policies = [statement for statement in made() if "ROW POLICY" in statement and f"`{table}`" in statement]
    start, on = "CREATE ROW POLICY OR REPLACE", f"ON `switchgear`.`{table}` FOR SELECT USING"
    assert policies == [
        f"{start} `switchgear_everything` {on} 1 AS PERMISSIVE TO `default`",
        f"{start} `switchgear_reader_acme` {on} tenant = 'acme' AS PERMISSIVE TO `switchgear_reader_acme`",
    ]


def test_tenant_reader_is_granted_exactly_the_tables_with_a_tenant() -> None:
    """A view over circuits would show every tenant's tools."""
    texts = [statement for each in load_migrations() for statement in each.statements(Layout())]
    for name in (*TENANT_TABLES, *TENANT_VIEWS):
        (definition,) = [text for text in texts if re.match(rf"CREATE (TABLE|VIEW) IF NOT EXISTS {name}\b", text)] or [
            text for text in texts if re.match(rf"CREATE OR REPLACE VIEW {name}\b", text)
        ]
        assert re.search(r"\btenant\b", definition)
        assert "circuit_transitions" not in definition
    assert "circuit" not in " ".join((*TENANT_TABLES, *TENANT_VIEWS))


def test_names_of_tenants_and_users_cannot_leave_their_quotes() -> None:
    statements = made(tenant="a' OR 1 --", user="u` --", password="p' --")
    assert any(r"USING tenant = 'a\' OR 1 --' AS" in statement for statement in statements)
    assert any(r"CREATE USER IF NOT EXISTS `u\` --` " in statement for statement in statements)
    assert any(r"BY 'p\' --'" in statement for statement in statements)
    assert quoted("a\\") == "`a\\\\`"


def test_existing_user_gets_the_role_and_keeps_its_password() -> None:
    statements = made(password=None)
    assert not any("CREATE USER" in statement for statement in statements)
    assert statements[-2:] == [
        "GRANT `switchgear_reader_acme` TO `acme_sql`",
        "ALTER USER `acme_sql` DEFAULT ROLE `switchgear_reader_acme`",
    ]


def test_tenant_reader_is_created_on_the_whole_cluster() -> None:
    assert all("ON CLUSTER `main`" in statement for statement in made(cluster="main"))
    assert not any("ON CLUSTER" in statement for statement in made())


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [None, "main"])
async def test_clickhouse_can_parse_every_statement_of_a_tenant_reader(tmp_path: Path, cluster: str | None) -> None:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as store:
        for statement in made(tenant="it's \\ `one`", user="a `b`", cluster=cluster):
            read = await store.query("SELECT formatQuerySingleLine({sql:String})", {"sql": statement})
            assert read.result_rows[0][0].split()[0] in {"CREATE", "GRANT", "ALTER"}


@pytest.mark.parametrize("user", ["", "default"])
def test_switchgears_own_user_cannot_be_a_reader(user: str) -> None:
    with pytest.raises(SwitchgearError, match="reader of a tenant"):
        made(user=user)


@table("version", ["26.3.22.6", "26.3.23.1", "26.5.8.18", "26.6.4.10", "26.7.6.5", "26.8.1.1", "26.9.2.1", "27.1.1.1"])
def test_server_version_whose_row_policies_hold_is_accepted(version: str) -> None:
    check_policies(version)


@table(
    "version",
    ["24.8.4.13", "25.8.34.10", "26.3.22.5", "26.3", "26.4.9.9", "26.7.6.4", "25.8.16.10001.altinitystable", ""],
)
def test_server_version_that_ignores_row_policies_is_refused(version: str) -> None:
    with pytest.raises(SwitchgearError, match=r"row policies.*Update the server"):
        check_policies(version)
