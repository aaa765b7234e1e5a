"""``switchgear retention``: how long rows are kept, for all and by tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from switchgear_cli.discovery import store_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads import output
from switchgear_cli.reads.client import ApiClient, ApiUnavailableError, connect
from switchgear_cli.reads.formats import named, plain
from switchgear_cli.up_record import UpRecord
from switchgear_schemas.errors import StoreUnavailableError
from switchgear_schemas.settings import Settings, load_settings
from switchgear_sinks.migrations import (
    Layout,
    RetentionRules,
    change_retention,
    explained,
    migrate,
    pending,
    read_rules,
)
from switchgear_sinks.store import Store, StoreLocation, open_store

retention = App(name="retention", help="Show or set how long rows are kept.")


@Parameter(name="*")
@dataclass(frozen=True)
class StoreOptions:
    """Which store: a ClickHouse server that the setting clickhouse_url names, or else that of the running system.

    Attributes:
        api_url: HTTP API of the running system.
        data_dir: Data folder of a `switchgear up`; it is opened here where none runs on it.
        clickhouse: http(s)://user:password@host:port/database, or chdb:/folder that no process has open.
    """

    api_url: str | None = None
    data_dir: Path | None = None
    clickhouse: str | None = None


@retention.command
def show(*, where: StoreOptions | None = None, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Show the days that new rows get, for all and for the tenants with days of their own.

    Args:
        where: Which store.
        json: One JSON document instead of a table.
    """
    answer, place = _ask(where, ApiClient.retention, lambda store, layout: read_rules(store, layout.retention_days))
    if json:
        output.show_json(answer)
        return
    _print_rules(answer)
    print(f"In {place}.")


@retention.command(name="set")
def set_days(
    days: int,
    /,
    *,
    tenant: str | None = None,
    new_rows_only: Annotated[bool, Parameter(negative=())] = False,
    where: StoreOptions | None = None,
) -> None:
    """Keep rows for so many days after they arrived. This overrides the setting retention_days, until `retention reset`.

    New rows get the days at once. Stored rows get them in the background, and those whose days are over are deleted. In a folder
    that this command opens itself, that is done before it returns. Rollups name no user; they are kept for 400 days whatever the
    rules say.

    Args:
        days: 1 to 3650.
        tenant: Only this tenant's rows.
        new_rows_only: Leave the rows that are stored as they are.
        where: Which store.
    """
    answer, place = _ask(
        where,
        lambda api: api.set_retention(days, tenant, new_rows_only=new_rows_only),
        _change(tenant, days, new_rows_only=new_rows_only),
    )
    print(f"Rows{_of(tenant)} are kept for {days} days now, in {place}.")
    _print_rules(answer)


@retention.command
def reset(
    *,
    tenant: str | None = None,
    new_rows_only: Annotated[bool, Parameter(negative=())] = False,
    where: StoreOptions | None = None,
) -> None:
    """Remove what `retention set` said: a tenant gets the default again, the default gets the setting retention_days.

    Args:
        tenant: This tenant's rule; the default's unless given.
        new_rows_only: Leave the rows that are stored as they are.
        where: Which store.
    """
    answer, place = _ask(
        where,
        lambda api: api.reset_retention(tenant, new_rows_only=new_rows_only),
        _change(tenant, None, new_rows_only=new_rows_only),
    )
    print(f"The days{_of(tenant)} are the default again, in {place}.")
    _print_rules(answer)


_Work = Callable[[Store, Layout], Awaitable[RetentionRules]]


def _change(tenant: str | None, days: int | None, *, new_rows_only: bool) -> _Work:
    async def work(store: Store, layout: Layout) -> RetentionRules:
        await migrate(store, layout)
        with explained("The retention", "The rule is kept, and applied by the next sink that starts, or try again."):
            # the embedded engine ends with this process
            return await change_retention(store, layout, tenant, days, new_rows_only=new_rows_only, wait=store.embedded)

    return work


def _ask(
    where: StoreOptions | None, by_api: Callable[[ApiClient], dict[str, Any]], directly: _Work
) -> tuple[Mapping[str, Any], str]:
    """Return the rules, and which store they are of: the running system's, or one that is opened here.

    Raises:
        ApiUnavailableError: No system runs, and no store was named.
    """
    chosen = where or StoreOptions()
    settings = store_settings(clickhouse=chosen.clickhouse, data_dir=chosen.data_dir, api_url=chosen.api_url)
    record = None if chosen.data_dir is None else UpRecord.running(chosen.data_dir)
    if settings is not None and record is None:
        configure_client_logging(settings)
        rules = asyncio.run(_opened(settings, directly))
        place = str(StoreLocation.parse(settings.clickhouse_url, settings.data_dir))
        return rules.to_dict() | {"store": place}, place
    with connect(chosen.api_url) if record is None else ApiClient.of(load_settings(), record.api_url) as api:
        try:
            answer = by_api(api)
        except ApiUnavailableError as error:
            hint = f"{error.hint} Data that no process has open are named by --data-dir or --clickhouse."
            raise ApiUnavailableError(error.message, hint=hint) from None
        return answer, f"{plain(str(answer.get('store')))} (by the API at {api.url})"


async def _opened(settings: Settings, work: _Work) -> RetentionRules:
    location = StoreLocation.parse(settings.clickhouse_url, settings.data_dir)
    layout = Layout.of(settings)
    missing = StoreUnavailableError(
        f"There are no tables of Switchgear in {location}.",
        hint="Correct the name, or make them by a sink or `switchgear migrate`.",
    )
    if location.folder is not None and not location.folder.is_dir():
        raise missing
    async with await open_store(settings, create=False) as store:
        if not store.database_exists or any(migration.version == 1 for migration in await pending(store)):
            raise missing
        return await work(store, layout)


def _of(tenant: str | None) -> str:
    if tenant is None:
        return ""
    return f" of the tenant {named(tenant)}" if tenant else " without a tenant"


def _print_rules(answer: Mapping[str, Any]) -> None:
    tenants: Mapping[str, int] = answer["tenants"]
    table = Table("tenant", "days", "from", box=None, header_style="bold")
    table.add_row("(all others)" if tenants else "(all)", str(answer["default_days"]), answer["default_from"])
    for tenant, days in tenants.items():
        table.add_row(Text(named(tenant)) or "(no tenant)", str(days), "retention set")
    output.show(table)
