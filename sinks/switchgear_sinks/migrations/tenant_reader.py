"""Create a read-only SQL user of one tenant: a role, its grants, and row policies for the tenant's rows."""

from __future__ import annotations

from typing import Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.migrations.files import Layout
from switchgear_sinks.migrations.retention import literal
from switchgear_sinks.store import Store

TENANT_TABLES: Final = (
    "tool_metrics",
    "tool_errors",
    "tool_slow_calls",
    "tool_counts_1m",
    "tool_latency_15m",
    "tool_error_types_15m",
    "tool_caller_errors_15m",
    "emitter_clocks",
)
"""Tables with a ``tenant`` column. Circuits belong to the whole fleet, so their history is not granted."""
TENANT_VIEWS: Final = ("tool_stats_1h", "slow_executions", "error_patterns", "duplicate_calls", "waste_by_tool")
"""Views over these tables only. They read with the rights of the user who asks, so the policies hold in them."""
FIXED_IN: Final[dict[tuple[int, ...], tuple[int, ...]]] = {
    (26, 3): (26, 3, 22, 6),
    (26, 5): (26, 5, 8, 18),
    (26, 6): (26, 6, 4, 10),
    (26, 7): (26, 7, 6, 5),
}
"""By release series, the first release in which row policies hold in the table functions that read parts."""
_LIMITS: Final = "readonly = 1, max_execution_time = 30, max_memory_usage = 4000000000, max_result_rows = 100000"


def tenant_reader(
    tenant: str, user: str, password: str | None, database: str, own_user: str, layout: Layout
) -> list[str]:
    """Return the statements that let ``user`` see the rows of ``tenant``. Each can be repeated.

    Args:
        tenant: The tenant.
        user: Name of the ClickHouse user.
        password: Password of a new user. None: the user exists, and only gets the role.
        database: The database of the tables.
        own_user: The user of Switchgear itself, who gets a policy for all rows. If ``users_without_row_policies_can_read_rows``
            is off, a table with row policies shows nothing to a user without one.
        layout: One node or a cluster.

    Raises:
        SwitchgearError: ``user`` is empty, or is Switchgear's own user, who would lose the rights to write.
    """
    if not user or user == own_user:
        raise SwitchgearError(
            f"{user!r} cannot be the reader of a tenant: Switchgear itself connects under it."
            if user
            else "The reader of a tenant needs a name.",
            hint="Choose another user name.",
        )
    on = f" {layout.on_cluster}" if layout.on_cluster else ""
    role = quoted(f"switchgear_reader_{tenant or 'default'}")
    where, name = quoted(database), quoted(user)
    statements = [f"CREATE ROLE IF NOT EXISTS {role}{on} SETTINGS {_LIMITS}"]
    statements += [f"GRANT{on} SELECT ON {where}.{quoted(each)} TO {role}" for each in (*TENANT_TABLES, *TENANT_VIEWS)]
    for table in TENANT_TABLES:
        statements.append(
            f"CREATE ROW POLICY OR REPLACE `switchgear_everything`{on} ON {where}.{quoted(table)} "
            f"FOR SELECT USING 1 AS PERMISSIVE TO {quoted(own_user)}"
        )
        statements.append(
            f"CREATE ROW POLICY OR REPLACE {role}{on} ON {where}.{quoted(table)} "
            f"FOR SELECT USING tenant = {literal(tenant)} AS PERMISSIVE TO {role}"
        )
    if password is not None:
        statements.append(
            f"CREATE USER IF NOT EXISTS {name}{on} IDENTIFIED WITH sha256_password BY {literal(password)}"
        )
    statements.append(f"GRANT{on} {role} TO {name}")
    statements.append(f"ALTER USER {name}{on} DEFAULT ROLE {role}")
    return statements


def check_policies(server_version: str) -> None:
    """Check that row policies hold on this server.

    Until August 2026 ``mergeTreeProjection`` and ``mergeTreeIndex`` ignored them (ClickHouse pull requests 112329 and 115304). The
    reader of one tenant could see the rows of all tenants.

    Raises:
        SwitchgearError: The server is older than the fix in its release series.
    """
    parts = tuple(int(part) for part in server_version.split(".")[:4] if part.isdigit())
    fixed_in = FIXED_IN.get(parts[:2], (26, 8))
    if parts < fixed_in:
        wanted = ", ".join(".".join(map(str, each)) for each in FIXED_IN.values())
        raise SwitchgearError(
            f"ClickHouse {server_version} ignores row policies in mergeTreeProjection, so a tenant's reader would see all rows.",
            hint=f"Update the server to 26.8 or later, or to one of {wanted}.",
        )


async def has_user(store: Store, user: str) -> bool:
    """Return whether ClickHouse has the user."""
    found = await store.query("SELECT count() FROM system.users WHERE name = {name:String}", {"name": user})
    return bool(found.result_rows[0][0])


def quoted(name: str) -> str:
    """Return ``name`` as a quoted identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
