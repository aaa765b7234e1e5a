"""Retention rules: days by tenant and for all others, kept in ClickHouse beside the rows they are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import MAX_NAME_LENGTH
from switchgear_sinks.store import Store

RULES: Final = "retention_rules"
MAX_DAYS: Final = 3650
MAX_TENANTS: Final = 10_000
"""Rules are written into the table's definition: thousands are fine, a million would not be."""


class RetentionError(SwitchgearError):
    """A rule cannot be kept: its days or its tenant are out of range."""


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """``default`` days, and others for some tenants. ``from_command`` tells whether the default was set by command."""

    default: int
    tenants: Mapping[str, int] = field(default_factory=dict)
    from_command: bool = False

    @property
    def expression(self) -> str:
        """SQL that gives a row's days from its ``tenant``, in the form in which ClickHouse writes it back."""
        if not self.tenants:
            return str(self.default)
        names = ", ".join(literal(tenant) for tenant in sorted(self.tenants))
        days = ", ".join(str(self.tenants[tenant]) for tenant in sorted(self.tenants))
        return f"transform(toString(tenant), [{names}], [{days}], {self.default})"

    def days(self, tenant: str) -> int:
        """For new rows of ``tenant``."""
        return self.tenants.get(tenant, self.default)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: ``default_days``, ``default_from``, ``tenants``."""
        origin = "retention set" if self.from_command else "the setting retention_days"
        return {"default_days": self.default, "default_from": origin, "tenants": dict(self.tenants)}


async def read_rules(store: Store, default: int) -> RetentionRules:
    """The rules in force; ``default`` (the setting ``retention_days``) where no command set another."""
    known = await store.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String}", {"name": RULES}
    )
    if known.result_rows[0][0] == 0:
        return RetentionRules(default)
    rows = await store.query(
        f"SELECT is_default, tenant, argMax(days, set_at) AS latest FROM {RULES} "  # noqa: S608 - a constant
        "GROUP BY is_default, tenant HAVING latest > 0 ORDER BY tenant"
    )
    by_command = [int(days) for is_default, _, days in rows.result_rows if is_default]
    tenants = {str(tenant): int(days) for is_default, tenant, days in rows.result_rows if not is_default}
    return RetentionRules(by_command[0] if by_command else default, tenants, from_command=bool(by_command))


async def write_rule(store: Store, tenant: str | None, days: int | None) -> None:
    """Keep rows of ``tenant`` (None: of all tenants without a rule) for ``days``; None takes the rule back.

    Only the rule: :func:`apply_retention` puts it into force.

    Raises:
        RetentionError: ``days`` or ``tenant`` is out of range, or too many tenants have a rule.
    """
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise RetentionError(f"The retention must be from 1 to {MAX_DAYS} days, got {days}.")
    if tenant is not None and len(tenant) > MAX_NAME_LENGTH:
        raise RetentionError(f"A tenant has at most {MAX_NAME_LENGTH} characters, got {len(tenant)}.")
    if tenant is not None and days is not None:
        others = (await read_rules(store, 1)).tenants.keys() - {tenant}
        if len(others) >= MAX_TENANTS:
            raise RetentionError(f"No more than {MAX_TENANTS:,} tenants can have a retention of their own.")
    await store.writing.insert(RULES, [(tenant or "", tenant is None, days or 0)], ["tenant", "is_default", "days"])


def literal(text: str) -> str:
    """``text`` as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
