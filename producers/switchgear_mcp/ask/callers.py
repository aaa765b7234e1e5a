"""Who asks: the holder of a token, with the roles that the API says."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from switchgear.policies.glob import matches
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.errors import AskError

FRESH_S: Final = 1.0
"""How long an answer about a token counts. So a revoked token ends here as soon as at the API."""
_OPEN_FRESH_S: Final = 5.0
_MOST: Final = 1024
_UNAUTHORIZED: Final = 401
_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Args:
        token: What their requests to the API carry. None: the API needs none.
        name: For people.
        roles: What the token may do.
        tenant: The only tenant that it sees. None: all.
        tools: Globs of the tools that it sees. Empty: all.
        proven: Whether a token says all this. Nobody has a role at an API without tokens.
    """

    token: str | None
    name: str = ""
    roles: frozenset[str] = frozenset()
    tenant: str | None = None
    tools: tuple[str, ...] = ()
    proven: bool = False

    @property
    def may_operate(self) -> bool:
        """Whether the caller may give commands: a token with the role ``operate``, for all tenants."""
        return self.proven and "operate" in self.roles and self.tenant is None

    def sees(self, tool: str) -> bool:
        """Return whether the token covers a tool."""
        return not self.tools or any(matches(glob, tool) for glob in self.tools)

    @property
    def key(self) -> str:
        """What tells callers apart, without the token itself."""
        return key_of(self.token)


class Callers:
    """Asks the API who holds a token. It remembers answers for a second, by a hash of the token.

    Args:
        api: The API.
        clock: For tests.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._known = BoundedDict[str, tuple[float, Caller]](_MOST)
        self._open: tuple[float, bool] | None = None

    async def of(self, token: str | None) -> Caller:
        """Return the holder of a token, or whoever has none.

        Raises:
            AskError: The API does not accept it, or can't be reached.
        """
        key, now = key_of(token), self._clock()
        known = self._known.get(key)
        if known is not None and now < known[0] + FRESH_S:
            return replace(known[1], token=token)
        found = await self._asked(token)
        self._known[key] = now, replace(found, token=None)
        return found

    async def needs_token(self) -> bool:
        """Return whether the API has tokens.

        Raises:
            AskError: It can't be reached.
        """
        now = self._clock()
        if self._open is None or now >= self._open[0] + _OPEN_FRESH_S:
            try:
                await self._api.get("/v1/session", None)
                self._open = now, True
            except AskError as error:
                if error.status != _UNAUTHORIZED:
                    raise
                self._open = now, False
        return not self._open[1]

    async def _asked(self, token: str | None) -> Caller:
        # An API without tokens looks at none, and answers everybody that they may do everything.
        proven = await self.needs_token()
        session = await self._api.get("/v1/session", token)
        return Caller(
            token,
            str(session.get("name", "")),
            frozenset(map(str, session.get("roles", ()))),
            session.get("tenant"),
            tuple(map(str, session.get("tools") or ())),
            proven,
        )


def key_of(token: str | None) -> str:
    """Return a hash of a token, to tell callers apart."""
    return "" if token is None else hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
