"""Tries the servers of a client's configuration before it is rewritten: each is started once, and lists its tools."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from switchgear_mcp import lists, servers
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import NO_HEADERS
from switchgear_mcp.message import Id, Message
from switchgear_mcp.protocol import LATEST_HANDSHAKE
from switchgear_mcp.servers import CommandServer, Server
from switchgear_mcp.upstream import Upstream
from switchgear_mcp.wrap import Finding
from switchgear_mcp.wrapped_entry import Entry, address_of
from switchgear_schemas.errors import SwitchgearError

LIMIT_S: Final = 30.0
"""The longest trial of one server. Some are downloaded first."""
_AT_ONCE: Final = 8
_OF_THE_CLIENT: Final = re.compile(r"\$\{(?!(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})")
"""What the proxy doesn't fill in, such as ``${input:token}``."""
_HELLO: Final = {
    "protocolVersion": LATEST_HANDSHAKE,
    "capabilities": {},
    "clientInfo": {"name": "switchgear", "version": "1"},
}

Try = Callable[[Server], Coroutine[Any, Any, Finding]]
"""Tries a server."""


def examined(entries: Sequence[Entry], trial: Try | None = None) -> list[Finding]:
    """Return for each server whether it will work behind the proxy, as far as a trial shows.

    Args:
        entries: Servers that can be wrapped.
        trial: For tests.
    """
    return asyncio.run(_examined(entries, trial or tried))


async def _examined(entries: Sequence[Entry], trial: Try) -> list[Finding]:
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(entry: Entry) -> Finding:
        found = _without_trial(entry)
        if isinstance(found, Finding):
            return found
        async with free:
            return await trial(found)

    return list(await asyncio.gather(*map(one, entries)))


def _without_trial(entry: Entry) -> Server | Finding:
    """Return the server of an entry, or what is known of it without a trial."""
    if servers.is_disabled(entry):
        return Finding(works=True, text="It is disabled, so it was not tried.")
    why = _missing(entry) if "command" in entry else _no_address(entry)
    if why is not None:
        return Finding(works=False, text=why)
    if _OF_THE_CLIENT.search(str(entry)) or ("command" in entry and _place(entry) is None):
        return Finding(works=True, text="It was not tried, because only the client knows its variables or its folder.")
    try:
        server = servers.of_entry("It", "it", entry)
    except SwitchgearError as error:  # such as a variable that only the client has
        return Finding(works=True, text=f"It was not tried. {error.message}")
    assert server is not None
    return server


async def tried(server: Server) -> Finding:
    """Start a server or connect to it, and list its tools."""
    upstream = Upstream(server, _Nobody())
    try:
        async with asyncio.timeout(LIMIT_S):
            found = await _tools(upstream)
        return Finding(works=True, text=f"It works, and has {found} tool{'' if found == 1 else 's'}.")
    except TimeoutError:
        return Finding(works=False, text=f"It did not answer within {LIMIT_S:g} s. Wrap again when it does.")
    except Exception as error:  # noqa: BLE001 - each says what is wrong
        if upstream.refusal is not None and upstream.refusal.challenge is not None:
            return Finding(works=False, text=_WANTS_LOGIN)
        text = str(error).replace(f"The server {server.name} ", "It ").split(". The first call after")[0]
        text = f"{text.rstrip('.')}. Wrap again when it works."
        if isinstance(server, CommandServer):
            text += " If it works without the proxy, it needs a variable: name that in the env of its entry."
        return Finding(works=False, text=text)
    finally:
        await upstream.close()


_WANTS_LOGIN: Final = (
    "It asks for a login, which clients don't do for a program. Give it a header with a token and wrap again, or serve it over HTTP: "
    "switchgear mcp-proxy --name NAME --http 127.0.0.1:8765 ADDRESS."
)


async def _tools(upstream: Upstream) -> int:
    """Return how many tools a server has.

    Raises:
        Exception: It doesn't work.
    """
    greeting = await upstream.greet(rpc.request("hello", "initialize", _HELLO))
    assert greeting is not None
    await asyncio.wait({greeting})
    if greeting.cancelled():
        await upstream.connect()  # it raises the reason
    answer = greeting.result()
    if "error" not in answer.fields:
        await upstream.notify(rpc.notification("notifications/initialized"))
        if "tools" not in rpc.members(rpc.members(answer.fields["result"]).get("capabilities")):
            return 0
        return len(await lists.pages(upstream, "tools/list", NO_HEADERS))
    raise lists.ListError(answer)


class _Nobody:
    """A client that takes nothing."""

    async def receive(self, upstream: Upstream, message: Message, related: Id) -> None:  # noqa: ARG002
        """Refuse a request of the server."""
        if message.is_request:
            await upstream.notify(message.error(rpc.METHOD_NOT_FOUND, "Method not found"))

    async def connected(self, upstream: Upstream) -> None:
        """Do nothing."""

    async def lost(self, upstream: Upstream) -> None:
        """Do nothing."""


def _no_address(entry: Mapping[str, Any]) -> str | None:
    address = address_of(entry)
    url = "" if address is None else str(address[1])
    return None if url.startswith(("http://", "https://", "$")) else "Its address is not http:// or https://."


def _missing(entry: Entry) -> str | None:
    """Return that the command of a server can't be started, or None."""
    command, place = entry["command"], _place(entry)
    path = (entry.get("env") or {}).get("PATH", os.environ.get("PATH"))
    if not command:
        return "Its command is empty."
    if place is None or not isinstance(path, str) or "$" in path or shutil.which(place, path=path) is not None:
        return None
    what = "is not a program that can be started" if Path(place).exists() else "was not found"
    return f"Its command {command!r} {what}."


def _place(entry: Entry) -> str | None:
    """Return a server's command with its folder. None if only the client knows that."""
    command, folder = str(entry["command"]), entry.get("cwd")
    place = os.path.expanduser(command)  # noqa: PTH111 - a command without a folder must not get one
    if "$" in command:
        return None
    if os.sep in place and not Path(place).is_absolute():
        if not isinstance(folder, str) or "$" in folder:
            return None
        return str(Path(folder).expanduser() / place)
    return place
