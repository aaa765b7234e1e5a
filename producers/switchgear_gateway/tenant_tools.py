"""The tools that tenants have named at this gateway: by their executions, or by questions about calls.

A tenant whose token lists no tools sees the circuits of these tools only. Each gateway remembers what came to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_http.principal import Principal
from switchgear_http.visibility import NOTHING_NAMED, Named
from switchgear_schemas.families import DEFAULT_PATTERN

MOST_TENANTS: Final = 1_000
MOST_TOOLS: Final = 1_000
"""Of one tenant. The one that was named longest ago is forgotten first."""


class TenantTools:
    """Remembers them. Bounded, whatever names come.

    Args:
        family_pattern: How the name of a tool tells its family.
        most_tenants: Tenants that are remembered. The one that named nothing for longest is forgotten first.
        most_tools: Tools of one tenant.
    """

    def __init__(
        self,
        family_pattern: str = DEFAULT_PATTERN,
        *,
        most_tenants: int = MOST_TENANTS,
        most_tools: int = MOST_TOOLS,
    ) -> None:
        self._family_pattern = family_pattern
        self._most_tools = most_tools
        self._names = BoundedDict[str, BoundedDict[str, None]](most_tenants)
        self._named: dict[str, Named] = {}
        self.on_change: Callable[[str], object] = lambda _tenant: None
        """Called with the tenant that has named something new."""

    @property
    def tenants(self) -> int:
        """The number of tenants that are remembered."""
        return len(self._names)

    def note(self, principal: Principal, tools: Iterable[str]) -> None:
        """Remember the tools that a client names. Nothing is remembered of a client that sees them without."""
        tenant = principal.tenant
        if tenant is None or principal.tools:
            return
        names = self._names.get(tenant) or BoundedDict[str, None](self._most_tools)
        forgotten = self._names.put(tenant, names)
        if forgotten is not None:
            self._named.pop(forgotten[0], None)
        new = False
        for tool in tools:
            new = new or tool not in names
            names[tool] = None
        if new:
            self._named[tenant] = Named.of(names, self._family_pattern)
            self.on_change(tenant)

    def of(self, principal: Principal) -> Named:
        """Return what a client's tenant has named. The same object until that changes."""
        return NOTHING_NAMED if principal.tenant is None else self._named.get(principal.tenant, NOTHING_NAMED)
