"""Keeps the secrets of a server's entry out of texts that the model, the client or the log sees."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from switchgear.redaction import MARK, redact
from switchgear_mcp.servers import CommandServer, Server

_SHORTEST: Final = 6
"""A shorter value would be found in ordinary words."""
_CODE: Final = 8
"""The shortest value with a digit that may be a secret."""
_LONG: Final = 16
"""The shortest value without a digit that may be one."""
_SCHEME: Final = re.compile(r"(?i)\b(?:bearer|basic|token)\s+(\S+)")


class Hidden:
    """The secrets of one server.

    Args:
        server: The server. All of its address but the host may be secret, and so may its headers. Variables of the environment are
            if their name or their form says so.
    """

    def __init__(self, server: Server) -> None:
        found = _of_environment(server) if isinstance(server, CommandServer) else _of_address(server.url)
        if not isinstance(server, CommandServer):
            for value in server.headers.values():
                found |= set(filter(_may_be_secret, {value, *_SCHEME.findall(value)}))
        # The longest first, because one may be a part of another.
        self._values = sorted((value for value in found if len(value) >= _SHORTEST), key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return a text without the server's secrets."""
        for value in self._values:
            text = text.replace(value, MARK)
        return text

    def line(self, text: str) -> str:
        """Return a line of a server's log, without its secrets and without what looks like one."""
        return redact(self.hide(text))


def _of_environment(server: CommandServer) -> set[str]:
    return {value for name, value in server.env.items() if redact(f"{name}={value}") != f"{name}={value}"}


def _of_address(url: str) -> set[str]:
    parts = urlsplit(url)
    values = {*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query))}
    found = {parts.path, parts.query, parts.password or "", *filter(_may_be_secret, {*values, parts.username or ""})}
    return found | {unquote(value) for value in found}


def _may_be_secret(value: str) -> bool:
    """Return whether a value can be more than a word, which other texts have too."""
    return len(value) >= _LONG or (len(value) >= _CODE and any(map(str.isdigit, value)))
