"""The tables, made and changed by versioned SQL files with a ledger."""

from switchgear_sinks.migrations.files import Migration, MigrationError, load_migrations
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.ledger import LEDGER
from switchgear_sinks.migrations.retention import apply_retention
from switchgear_sinks.migrations.runner import migrate, pending

__all__ = [
    "LEDGER",
    "Layout",
    "Migration",
    "MigrationError",
    "apply_retention",
    "load_migrations",
    "migrate",
    "pending",
]
