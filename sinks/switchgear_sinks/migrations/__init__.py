"""The tables, made and changed by versioned SQL files with a ledger."""

from switchgear_sinks.migrations.failures import explained
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.ledger import LEDGER, Migration, MigrationError, load_migrations
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
from switchgear_sinks.migrations.runner import migrate, pending, planned
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
