"""What all routes of one gateway share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from switchgear_gateway.bodies import Budget
from switchgear_gateway.names import CheckName, check_name, name_check
from switchgear_gateway.tenant_tools import TenantTools
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class Shared:
    """Bounds of all requests together, and what the gateway knows about names.

    Args:
        budget: Bounds the bodies of all requests.
        names: Checks the names of tools and services.
        tenant_tools: Remembers the tools that tenants name.
        family_pattern: Which tools belong to a family.
    """

    budget: Budget = field(default_factory=Budget)
    names: CheckName = check_name
    tenant_tools: TenantTools = field(default_factory=TenantTools)
    family_pattern: str = DEFAULT_PATTERN

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the settings say."""
        return cls(
            names=name_check(any_names=settings.gateway_any_names),
            tenant_tools=TenantTools(settings.family_pattern),
            family_pattern=settings.family_pattern,
        )
