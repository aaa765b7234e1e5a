"""Create and change the tables: versioned SQL files, a ledger of those applied, retention, and readers of one tenant."""

from switchgear_sinks.migrations.files import Layout, Migration, MigrationError, explained, load_migrations
from switchgear_sinks.migrations.retention import (
    RetentionError,
    RetentionRules,
    apply_retention,
    change_retention,
    plan_retention,
    read_rules,
    restamp,
    write_rule,
)
from switchgear_sinks.migrations.runner import LEDGER, migrate, pending, planned
from switchgear_sinks.migrations.tenant_reader import check_policies, has_user, tenant_reader

__all__ = [
    "LEDGER",
    "Layout",
    "Migration",
    "MigrationError",
    "RetentionError",
    "RetentionRules",
    "apply_retention",
    "change_retention",
    "check_policies",
    "explained",
    "has_user",
    "load_migrations",
    "migrate",
    "pending",
    "plan_retention",
    "planned",
    "read_rules",
    "restamp",
    "tenant_reader",
    "write_rule",
]
