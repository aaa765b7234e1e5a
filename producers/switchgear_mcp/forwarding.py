"""Which headers of a client go on to a server at an address.

A header may hold a credential under any name, so no header goes to a server unless its entry names it. With several servers, one
client's token would else reach all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from switchgear_schemas.errors import WrongUsageError

ENTRY_KEY: Final = "forward_headers"
"""The key of an entry with the names."""
ALWAYS: Final = frozenset({"traceparent", "tracestate"})
"""The place of a request in its trace (W3C Trace Context), which holds no secret."""
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_OF_THE_CONNECTION: Final = frozenset(
    {
        "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "keep-alive", "last-event-id", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


def names_of(given: Any, where: str) -> tuple[str, ...]:
    """Return the names of headers in lower case.

    Args:
        given: A list of names.
        where: Where they are named, for the error.

    Raises:
        WrongUsageError: They are no names of headers, or one that belongs to the connection itself.
    """
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise WrongUsageError(f"{where} is not a list of names.", hint='Write e.g. ["authorization"].')
    for name in given:
        if not _NAME.fullmatch(name):
            raise WrongUsageError(f"{where} has {name[:100]!r}, which is not the name of a header.")
        if name.lower() in _OF_THE_CONNECTION or name.lower().startswith("mcp-"):
            raise WrongUsageError(
                f"{where} has {name!r}, which belongs to the connection with the client.", hint="Leave it out."
            )
    return tuple(dict.fromkeys(name.lower() for name in given))


def forwarded(headers: Iterable[tuple[str, str]], names: Iterable[str]) -> dict[str, str]:
    """Return the headers of a client's request that go on.

    Args:
        headers: All of them, with names in lower case.
        names: Those that the server's entry names.
    """
    wanted = ALWAYS.union(names)
    return {name: value for name, value in headers if name in wanted}


def added(client: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the client's headers without those that the server's entry sets itself."""
    fixed = {name.lower() for name in own}
    return {name: value for name, value in client.items() if name not in fixed}
