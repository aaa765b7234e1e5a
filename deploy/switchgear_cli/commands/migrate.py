"""``switchgear migrate``: make or change the tables without a sink, or show what would be done."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from switchgear_cli.discovery import store_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_schemas.errors import SettingsError, SwitchgearError, WrongUsageError

_RIGHTS: Final = "Connect as a user with access_management, and try again: what was done stays as it is."


async def migrate(
    *,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    tenant_reader: str | None = None,
    clickhouse: str | None = None,
    data_dir: Path | None = None,
    cluster: str | None = None,
) -> None:
    """Bring the tables to this version, as every sink does when it starts; or print the statements.

    It changes the ClickHouse server that --clickhouse or the setting clickhouse_url names. A folder of the embedded engine
    is opened only where --clickhouse or --data-dir names it, and while no process has it open.

    Args:
        dry_run: Print the statements that would run, and run none of them.
        tenant_reader: TENANT=USER: also make the ClickHouse user USER, who can read the rows of TENANT and no others. The
            password of a new user is printed once. Needs a server, and the right to manage its users.
        clickhouse: http(s)://user:password@host:port/database, or chdb:/folder.
        data_dir: Data folder of a `switchgear up` that does not run.
        cluster: A cluster of system.clusters: tables are made on all of it, replicated.
    """
    from switchgear_sinks import migrations  # noqa: PLC0415 - ClickHouse's client takes half a second to import
    from switchgear_sinks.store import open_store  # noqa: PLC0415 - as above

    settings = store_settings(clickhouse=clickhouse, data_dir=data_dir, clickhouse_cluster=cluster)
    if settings is None:
        raise WrongUsageError(
            "No store is named.",
            hint="Give --clickhouse or set SWITCHGEAR_CLICKHOUSE_URL for a server; give --data-dir for the data of a "
            "`switchgear up` that does not run. One that runs brought its tables to its version when it started.",
        )
    configure_client_logging(settings)
    layout = migrations.Layout.of(settings)
    reader = None if tenant_reader is None else _reader(tenant_reader)
    if reader is not None and settings.embedded:
        raise SettingsError(
            "The embedded ClickHouse engine has no users.", hint="Set SWITCHGEAR_CLICKHOUSE_URL to a ClickHouse server."
        )
    async with await open_store(settings, create=not dry_run) as store:
        statements = await migrations.planned(store, layout)
        password: str | None = None
        access: list[str] = []
        if reader is not None:
            tenant, user = reader
            migrations.check_policies(store.server_version)
            with migrations.explained("Looking for the user", _RIGHTS):
                known = await migrations.has_user(store, user)
            if not known:
                password = "…" if dry_run else secrets.token_urlsafe(24)
            access = migrations.tenant_reader(tenant, user, password, store.database, store.location.username, layout)
        if dry_run:
            print("\n".join(f"{statement.strip()};\n" for statement in [*statements, *access]) or "Nothing to do.")
            return
        applied = await migrations.migrate(store, layout)
        with migrations.explained("Making the tenant's reader", _RIGHTS):
            for statement in access:
                await store.command(statement)
        names = ", ".join(f"{each.version:04}_{each.name}" for each in applied)
        print(
            f"Applied {names} to {store.location}."
            if names
            else f"The tables are as they should be in {store.location}."
        )
        if reader is not None:
            made = f"made, password {password}" if password is not None else "was there already"
            print(
                f"The user {reader[1]} ({made}) reads the rows of {reader[0] or 'no tenant'} and no others, "
                f"in {store.location}."
            )


def _reader(text: str) -> tuple[str, str]:
    tenant, equals, user = text.rpartition("=")
    if not equals or not user:
        raise SwitchgearError(f"--tenant-reader must be TENANT=USER, got {text!r}.")
    return tenant, user
