"""Finds servers of a client's configuration that would not work behind the proxy, before it is rewritten."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from switchgear_mcp.wrap import Entry, address_of

LIMIT_S: Final = 5.0
"""The longest wait for a server's answer."""
_AT_ONCE: Final = 8
_PING: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_LOGIN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_NO_SERVER: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})
_FAILED: Final = 500

Ask = Callable[[str, Mapping[str, str]], "int | None"]
"""Sends a request without an effect to an address, with headers. Returns the status of the answer, None without one."""


def examined(entries: Sequence[Entry], ask: Ask | None = None) -> list[str | None]:
    """Return for each server why it would not work behind the proxy, as a sentence, or None.

    Args:
        entries: Servers that can be wrapped.
        ask: For tests.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(partial(_why_not, ask or status_at), entries))


def status_at(url: str, headers: Mapping[str, str]) -> int | None:
    """Send a ping to an MCP server, and return the status of the answer; None without one. Redirects are not followed."""
    try:
        request = urllib.request.Request(url, _PING, {**_HEADERS, **headers}, method="POST")  # noqa: S310 - see _why_not
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=LIMIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as it is: another host must not get the headers."""

    def redirect_request(self, *_given: Any) -> None:
        return None


def _why_not(ask: Ask, entry: Entry) -> str | None:
    if entry.get("disabled") is True:
        return None
    if "command" in entry:
        return _missing(entry)
    address = address_of(entry)
    assert address is not None
    url, headers = address[1], entry.get("headers", {})
    if headers or "$" in url:  # it has a credential, or the client fills something in
        return None
    if not url.startswith(("http://", "https://")):
        return "Its address is not http:// or https://."
    return _refuses(ask(url, headers))


def _refuses(status: int | None) -> str | None:
    if status is None:
        return "It did not answer, so it is not known if it needs a login, which the proxy can't do. Start it and wrap again."
    if status in _LOGIN:
        return f"It asks for a login (HTTP {status}), which the proxy can't do. Give it a header with a token and wrap again."
    if status in _NO_SERVER:
        return f"It has no streamable HTTP at this address (HTTP {status})."
    return f"It does not work now (HTTP {status}). Wrap again when it does." if status >= _FAILED else None


def _missing(entry: Entry) -> str | None:
    """Return that the command of a server can't be started, or None."""
    command, env, folder = entry["command"], entry.get("env") or {}, entry.get("cwd")
    path = env.get("PATH", os.environ.get("PATH"))
    if not command or "$" in command or not isinstance(path, str) or "$" in path:
        return None if command else "Its command is empty."
    place = os.path.expanduser(command)  # noqa: PTH111 - a command without a folder must not get one
    if os.sep in place and not Path(place).is_absolute():
        if not isinstance(folder, str) or "$" in folder:
            return None  # only the client knows where it starts it
        place = str(Path(folder).expanduser() / place)
    if shutil.which(place, path=path) is not None:
        return None
    what = "is not a program that can be started" if Path(place).exists() else "was not found"
    return f"Its command {command!r} {what}."
