"""Looks after the clients between their requests: tools that become unavailable or available, and servers that were down."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from switchgear_mcp.link import Link
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.upstream import Upstream

log: Final = logging.getLogger("switchgear.mcp_proxy")
LOOK_EVERY_S: Final = 1.0
"""The wait of an open circuit ends without an event."""
_PAUSE_S: Final = 0.1
"""Changes within this time are one."""


class Watch:
    """Notifies clients when the tools that they may call have changed, and tries servers again that were never reached.

    Make it in the event loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._retries: dict[Upstream, asyncio.Task[None]] = {}

    def on_transition(self, _change: object) -> None:
        """Look soon, because a circuit has changed. Any thread may call this."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._changed.set)

    async def run(self, proxy: Proxy) -> None:
        """Look every second, and after each change of a circuit."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._changed.wait()
            await asyncio.sleep(_PAUSE_S)
            self._changed.clear()
            for link in list(proxy.links):
                try:
                    await self._look(link, proxy)
                except Exception:
                    log.exception("a client could not be notified")

    async def _look(self, link: Link, proxy: Proxy) -> None:
        if link.offered is not None:
            names = [name for names in link.tools.values() for name in names]
            now = proxy.shared.calls.available(names, link.session_id)
            if now != link.offered:
                link.offered = now
                await link.tools_changed()
        self._retries = {upstream: task for upstream, task in self._retries.items() if not task.done()}
        for upstream in link.upstreams.values():
            if link.greeted and not upstream.works and upstream not in self._retries:
                self._retries[upstream] = asyncio.create_task(upstream.retry())
