"""Ask the fleet's circuits for a permit on behalf of a client of the gateway.

Only the fleet's circuits decide. A gateway's own circuits stay closed, because outcomes never reach them. A process of the SDK has such
circuits to protect itself: they count the calls of one process. Those of a gateway would count the calls of many clients, and with several
gateways each would see a random part of the outcomes. One client with a broken network would open them for all others, without the policy's
``minimum_reporters``. A probe whose outcome goes to another gateway would keep them open.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from switchgear import Permit, Rejection, Switchgear, SwitchgearError
from switchgear.prompts import NameOf
from switchgear_gateway.permit_tokens import GivenPermit
from switchgear_gateway.tenant_tools import TenantTools
from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.visibility import Sight
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.ids import mint_metric_id

PERMIT_S: Final = 3600.0
"""How long a permit lasts."""


class Client(NamedTuple):
    """Who asks, and for whom."""

    principal: Principal
    tenant: str
    emitter_id: str
    """The process that calls."""
    service: str
    user_id: str = ""
    session_id: str | None = None
    request_id: str | None = None


def client_of(
    principal: Principal,
    address: str,
    *,
    tenant: str | None = None,
    emitter_id: str | None = None,
    service: str | None = None,
    user_id: str = "",
    session_id: str | None = None,
    request_id: str | None = None,
) -> Client:
    """Return the client of a request.

    Args:
        principal: Who has logged in.
        address: Where the request comes from.
        tenant: As the request says. A principal with a tenant has that one.
        emitter_id: The calling process. By default the principal and its address stand for it.
        service: The service that it belongs to. By default the principal.
        user_id: The user that the call is for.
        session_id: The session.
        request_id: The request.

    Raises:
        ProblemError: The principal has another tenant.
    """
    if not principal.may(Role.EMIT, tenant=tenant):
        raise ProblemError(
            403, f"This token is for the tenant {principal.tenant!r} only.", "Leave out tenant, or name that one."
        )
    return Client(
        principal,
        tenant or principal.tenant or "",
        emitter_id or f"{principal.name}@{address}",
        service or principal.name,
        user_id,
        session_id,
        request_id,
    )


def check_tool(principal: Principal, tool: str) -> None:
    """Check that the principal may send the calls of a tool.

    Raises:
        ProblemError: It may not.
    """
    if not principal.may(Role.EMIT, tool=tool):
        raise ProblemError(403, f"This token is for the tools {', '.join(principal.tools)} only.", "Name one of them.")


class Granted(NamedTuple):
    """A permit, and for how long it is of use."""

    permit: GivenPermit
    expires_in_s: float
    """Seconds within which the outcome has an effect: until the end of the permit, or of its probe's lease."""


class Gate:
    """Gives permits by the fleet's circuits.

    Args:
        gear: A client of the fleet.
        tenant_tools: Remembers what tenants ask about.
        lifetime_s: How long a permit lasts.
        wall: Returns seconds since 1970.
    """

    def __init__(
        self,
        gear: Switchgear,
        tenant_tools: TenantTools,
        *,
        lifetime_s: float = PERMIT_S,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.gear = gear
        self.tenant_tools = tenant_tools
        self.wall = wall
        self._lifetime_s = lifetime_s

    def outage_message(
        self,
        principal: Principal,
        session_id: str,
        tools: Collection[str],
        *,
        name_of: NameOf = None,
        begins: bool = False,
    ) -> str:
        """Return what to append to the conversation of a client's session. Usually it is empty.

        Args:
            principal: The client.
            session_id: The session.
            tools: The tools to tell about. The client sees them.
            name_of: The model's names of tools.
            begins: The conversation begins, or goes on without what it was told.
        """
        told = hashlib.blake2b(f"{principal.name}\0{session_id}".encode(), digest_size=16).hexdigest()
        if begins:
            self.gear.forget_told(told)
        return self.gear.outage_message(told, name_of=name_of, tools=tools)

    async def ask(
        self,
        client: Client,
        tool: str,
        *,
        target: str = "",
        fallbacks: Collection[str] = (),
        parameters_hash: str | None = None,
    ) -> Granted | Rejection:
        """Ask for a permit. The refusal has only what the client may see.

        Args:
            client: Who asks.
            tool: The tool.
            target: What the call is about. It counts if the tool's policy has a ``target``.
            fallbacks: Tools that the client can call instead.
            parameters_hash: The hash of the call's arguments.

        Raises:
            ProblemError: The client may not call the tool, or its name is not valid.
        """
        check_tool(client.principal, tool)
        callable_ = [name for name in fallbacks if client.principal.may(Role.EMIT, tool=name)]
        self.tenant_tools.note(client.principal, (tool, *callable_))
        try:
            answer = await self.gear.atry_acquire(
                tool,
                user_id=client.user_id,
                session_id=client.session_id,
                request_id=client.request_id,
                target=target,
                fallbacks=callable_,
                tenant=client.tenant,
            )
        except SwitchgearError as error:
            raise ProblemError(422, f"tool: {error.message}", error.hint) from None
        if isinstance(answer, Rejection):
            return self._visible(answer, client)
        return self._granted(client, answer, parameters_hash)

    def unasked(self, client: Client, tool: str, duration_s: float, target: str = "") -> GivenPermit:
        """Return what stands for the permit of a call that this gateway wasn't asked about.

        Its event has no generation. So it counts in a closed circuit, and like a probe if it began after the wait.
        """
        now = self.wall()
        self.tenant_tools.note(client.principal, (tool,))
        return self._described(client, tool, now - duration_s, now, target)

    def _granted(self, client: Client, permit: Permit, parameters_hash: str | None) -> Granted:
        now, family = self.wall(), permit.family
        if permit.turn is not None:
            permit.turn.said_by_another(int(now))
        of_family = None if family is None else family.lease
        given = msgspec.structs.replace(
            self._described(client, permit.tool, now, now + self._lifetime_s, permit.caller.target),
            generation=permit.generation,
            lease_id=None if permit.lease is None else permit.lease[1],
            family_generation=None if family is None else family.generation,
            family_lease_id=None if of_family is None else of_family[1],
            parameters_hash=parameters_hash,
            served_by=permit.served_by,
        )
        lease = permit.lease or of_family
        return Granted(given, self._lifetime_s if lease is None else min(self._lifetime_s, self._left_s(*lease)))

    def _left_s(self, circuit_id: str, lease_id: str) -> float:
        view = self.gear.circuits().get(circuit_id)
        ends = [] if view is None else [lease.expires_at for lease in view.leases if lease.lease_id == lease_id]
        return max(0.0, min(ends, default=0.0) - self.wall())

    def _visible(self, refusal: Rejection, client: Client) -> Rejection:
        """Return a refusal with what the client may see. Without a tenant that is all but a fallback that its token excludes."""
        principal = client.principal
        sight = Sight.of(principal, self.tenant_tools.of(principal))
        if refusal.fallback is not None and not sight.sees_tool(refusal.fallback):
            refusal = msgspec.structs.replace(refusal, fallback=None)
        if principal.tenant is None:
            return refusal
        view = self.gear.circuits().get(_circuit_of(refusal, client))
        rule = "" if view is None or view.cause is None or refusal.state == "closed" else view.cause.rule
        return msgspec.structs.replace(refusal, last_error=None, cause=None, reason=rule)

    @staticmethod
    def _described(client: Client, tool: str, issued_at: float, expires_at: float, target: str) -> GivenPermit:
        return GivenPermit(
            UUID(mint_metric_id()).bytes,
            issued_at,
            expires_at,
            tool,
            tenant=client.tenant,
            emitter_id=client.emitter_id,
            service=client.service,
            user_id=client.user_id,
            session_id=client.session_id,
            request_id=client.request_id,
            target=target,
        )


def _circuit_of(refusal: Rejection, client: Client) -> str:
    """Return the id of the circuit that refused a client's call."""
    whose = {
        "user": client.user_id,
        "session": client.session_id or "",
        "tenant": client.tenant,
        "target": refusal.target,
    }
    return circuit_id(refusal.family or refusal.tool, refusal.scope, whose.get(refusal.scope, ""))
