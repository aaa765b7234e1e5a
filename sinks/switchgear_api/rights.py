"""What the client of a request may see, when its token is for one tenant or for some tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from switchgear_api.answers import ForbiddenError
from switchgear_http.middleware import principal_of
from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_http.visibility import NOTHING_NAMED, Named, Sight
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.health import SystemHealthReport
from switchgear_sinks.health import reports


class Rights:
    """The rights of one client."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    @classmethod
    def of(cls, request: Request) -> Rights:
        """Return the rights of the client that sends a request."""
        return cls(principal_of(request.scope))

    @property
    def local(self) -> bool:
        """Whether the API has no tokens, so the client is on its own machine."""
        return self._principal is LOCAL

    @property
    def all_tenants(self) -> bool:
        """Whether the client may see all tenants."""
        return self._principal.tenant is None

    @property
    def unrestricted(self) -> bool:
        """Whether the client may see all tenants and all tools."""
        return self.all_tenants and not self._principal.tools

    def tenant(self, given: str | None) -> str | None:
        """Return the tenant to read: the one that the request names, or the only one that the client may see.

        Raises:
            ForbiddenError: The request names another tenant.
        """
        if not self._principal.may(Role.READ, tenant=given):
            raise ForbiddenError(
                f"This token is for the tenant {self._principal.tenant!r} only.",
                hint="Leave out tenant, or name that one.",
            )
        return given if given is not None else self._principal.tenant

    def check_tool(self, tool_name: str | None) -> None:
        """Check that the client may see a tool. A client that may not see all tools must name one.

        Raises:
            ForbiddenError: It may not, or names none.
        """
        allowed = ", ".join(self._principal.tools)
        if tool_name is None and allowed:
            raise ForbiddenError(f"This token is for the tools {allowed} only.", hint="Name one: ?tool=….")
        if not self._principal.may(Role.READ, tool=tool_name):
            raise ForbiddenError(f"This token is for the tools {allowed} only.", hint="Name one of them.")

    def sight(self, named: Named = NOTHING_NAMED, family_pattern: str = DEFAULT_PATTERN) -> Sight:
        """Return which circuits the client sees.

        Args:
            named: What its tenant has named.
            family_pattern: Which tools belong to a family.
        """
        return Sight.of(self._principal, named, family_pattern)

    def check_all_tenants(self, what: str) -> None:
        """Check that the client may see all tenants.

        Args:
            what: What it asks for, as the subject of a sentence.

        Raises:
            ForbiddenError: It may see one tenant only.
        """
        if not self.all_tenants:
            raise ForbiddenError(
                f"{what} can't be read with a token of one tenant.", hint="Use a token for all tenants."
            )

    def check_unrestricted(self, what: str) -> None:
        """Check that the client may see all tenants and all tools.

        Raises:
            ForbiddenError: It may not.
        """
        self.check_all_tenants(what)
        self.check_unrestricted_tools(what)

    def check_unrestricted_tools(self, what: str) -> None:
        """Check that the client may see all tools.

        Raises:
            ForbiddenError: It may not.
        """
        if self._principal.tools:
            raise ForbiddenError(f"{what} can't be read with a token of some tools.", hint="Use a token for all tools.")

    def visible(self, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the records of tools that the client may see."""
        return [each for each in records if self._principal.may(Role.READ, tool=each["tool_name"])]

    def visible_report(self, report: SystemHealthReport) -> SystemHealthReport:
        """Return a report on the tools that the client may see."""
        judged = [each for each in report.tool_reports if self._principal.may(Role.READ, tool=each.tool_name)]
        return reports.system(judged, report.checked_at)
