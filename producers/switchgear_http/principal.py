"""A client that has proved who it is, and what it may do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from switchgear.policies.glob import matches
from switchgear_schemas.enums import MAX_NAME_LENGTH


class Role(StrEnum):
    """What a client may do. ``admin`` includes all other roles, ``operate`` includes ``read``."""

    EMIT = "emit"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


_PROVEN: Final = ("token:", "jwt:")
"""What an actor begins with that has logged in. Nobody else can be recorded under such a name."""
_HASH_LENGTH: Final = 12
ROLE_NAMES: Final = ", ".join(Role)
_INCLUDED: Final = {Role.OPERATE: {Role.READ}, Role.ADMIN: set(Role)}
"""What a role allows beside what is its own."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A client and its rights.

    Args:
        name: For people: the name of the token, or the subject of a JWT.
        roles: As given to the client, without those that they include.
        tenant: The only tenant whose data the client may see or send; None for all.
        tools: Globs of the tools that the client may see or use. Empty for all.
        credential: What the limits count by: clients with the same credential share them. ``token <id>``, ``jwt <host>:<subject>``, or
            empty without a login. It is one reporter, too.
        collector: The client passes on the calls of many processes, so each of those is a reporter.
    """

    name: str
    roles: frozenset[Role]
    tenant: str | None = None
    tools: tuple[str, ...] = ()
    credential: str = ""
    collector: bool = False

    @property
    def reporter(self) -> str | None:
        """The one reporter that circuits count for everything that the client sends. None: each event's ``emitter_id`` counts."""
        return None if self.collector or not self.credential else self.credential

    def may(self, role: Role, tool: str | None = None, tenant: str | None = None) -> bool:
        """Return whether the client has the role, for this tool and this tenant.

        Args:
            role: The role that is needed.
            tool: Name of a tool; None if the request is about no tool in particular.
            tenant: Name of a tenant; None if the request is about no tenant in particular.
        """
        return (
            any(role is each or role in _INCLUDED.get(each, ()) for each in self.roles)
            and (tool is None or not self.tools or any(matches(pattern, tool) for pattern in self.tools))
            and (tenant is None or self.tenant is None or tenant == self.tenant)
        )

    @property
    def actor(self) -> str:
        """Who acts, for the audit and the circuits' records: ``token:<name>``, ``jwt:<issuer's host>:<subject>``, or the plain name.

        Two logins never have the same. A token's name can be a subject, too, and a name without a login can be anything.
        """
        kind, _, rest = self.credential.partition(" ")
        if not rest:
            return self.name
        return fitted(f"token:{self.name}" if kind == "token" else f"{kind}:{rest}")

    @property
    def unrestricted(self) -> bool:
        """Whether the client may see the data of every tool and every tenant."""
        return self.tenant is None and not self.tools


LOCAL: Final = Principal("local", frozenset({Role.ADMIN}))
"""A client on the server's own machine, where no tokens are configured."""


def fitted(name: str) -> str:
    """Return a name that fits into a record. The end of a longer one becomes a hash, so that it is still one name."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - _HASH_LENGTH - 1]}~{hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]}"


def claims_login(actor: str) -> bool:
    """Whether a name says that its bearer has logged in."""
    return actor.lower().startswith(_PROVEN)
