"""``switchgear retention``: how long rows are kept, for all and by tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads import output
from switchgear_cli.reads.formats import plain
from switchgear_schemas.settings import Settings, load_settings
from switchgear_sinks.migrations import (
    Layout,
    RetentionRules,
    apply_retention,
    explained,
    migrate,
    read_rules,
    restamp,
    write_rule,
)
from switchgear_sinks.store import Store, open_store

retention = App(name="retention", help="Show or set how long rows are kept.")


@retention.command
async def show(*, clickhouse: str | None = None, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Show the days that new rows get, for all and for the tenants with days of their own.

    Args:
        clickhouse: http(s)://user:password@host:port/database, or chdb: / chdb:/folder.
        json: One JSON document instead of a table.
    """
    settings = _settings(clickhouse)
    async with await open_store(settings) as store:
        _print(await read_rules(store, Layout.of(settings).retention_days), json=json)


@retention.command(name="set")
async def set_days(
    days: int,
    /,
    *,
    tenant: str | None = None,
    new_rows_only: Annotated[bool, Parameter(negative=())] = False,
    clickhouse: str | None = None,
) -> None:
    """Keep rows for so many days after they arrived. It holds until it is set anew, over the setting retention_days.

    New rows are stamped with the days at once, also while sinks run. Rows that are stored are stamped anew and those whose
    days are over are deleted: on a server in the background, with the embedded engine before the command returns. The
    embedded engine is open in one process only: stop `switchgear up` or `switchgear sink` before. Rollups, which name no
    user, are kept for 400 days whatever the rules say.

    Args:
        days: 1 to 3650.
        tenant: Only this tenant's rows.
        new_rows_only: Leave the rows that are stored as they are.
        clickhouse: http(s)://user:password@host:port/database, or chdb: / chdb:/folder.
    """
    async with _changing(clickhouse, new_rows_only=new_rows_only) as store:
        await write_rule(store, tenant, days)


@retention.command
async def reset(
    *,
    tenant: str | None = None,
    new_rows_only: Annotated[bool, Parameter(negative=())] = False,
    clickhouse: str | None = None,
) -> None:
    """Take back what `retention set` said: the tenant gets the default again, the default the setting retention_days.

    Args:
        tenant: This tenant's rule; the default's unless given.
        new_rows_only: Leave the rows that are stored as they are.
        clickhouse: http(s)://user:password@host:port/database, or chdb: / chdb:/folder.
    """
    async with _changing(clickhouse, new_rows_only=new_rows_only) as store:
        await write_rule(store, tenant, None)


@asynccontextmanager
async def _changing(clickhouse: str | None, *, new_rows_only: bool) -> AsyncIterator[Store]:
    """The store with its tables; then the rules are put into force, and shown."""
    settings = _settings(clickhouse)
    layout = Layout.of(settings)
    async with await open_store(settings) as store:
        await migrate(store, layout)
        with explained("The retention", "The rule is kept, and applied by the next sink that starts, or try again."):
            yield store
            await apply_retention(store, layout)
            if not new_rows_only:
                await restamp(store, layout)
        _print(await read_rules(store, layout.retention_days), json=False)


def _settings(clickhouse: str | None) -> Settings:
    settings = load_settings(clickhouse_url=clickhouse)
    configure_client_logging(settings)
    return settings


def _print(rules: RetentionRules, *, json: bool) -> None:
    origin = "retention set" if rules.from_command else "the setting retention_days"
    if json:
        output.show_json({"default_days": rules.default, "default_from": origin, "tenants": dict(rules.tenants)})
        return
    table = Table("tenant", "days", "from", box=None, header_style="bold")
    table.add_row("(all others)" if rules.tenants else "(all)", str(rules.default), origin)
    for tenant, days in rules.tenants.items():
        table.add_row(plain(tenant) or "(no tenant)", str(days), "retention set")
    output.show(table)
