"""Updates of the resource: look at the API again and again while somebody subscribes, and say when something has changed.

The API's stream of changes has no circuits for a token of one tenant, so this asks like any reader. All subscribers with the same token share
one watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from switchgear_mcp.ask.callers import Caller
from switchgear_mcp.ask.errors import AskError

log: Final = logging.getLogger("switchgear.mcp")
EVERY_S: Final = 5.0
MOST: Final = 256
"""Subscriptions that a process has at a time."""
MOST_OF_A_CALLER: Final = 32

Listener = Callable[[], None]
Look = Callable[[Caller], Awaitable[object]]


class Watches:
    """All watches of a process.

    Args:
        look: Returns what a caller sees: equal until something changes.
        every_s: Seconds between two looks.
        most: Subscriptions at a time.
        most_of_a_caller: The same with one token.
    """

    def __init__(
        self, look: Look, *, every_s: float = EVERY_S, most: int = MOST, most_of_a_caller: int = MOST_OF_A_CALLER
    ) -> None:
        self._look, self._every_s = look, every_s
        self._most, self._most_of_a_caller = most, most_of_a_caller
        self._watches: dict[str, _Watch] = {}

    def __len__(self) -> int:
        return sum(len(each.listeners) for each in self._watches.values())

    def subscribe(self, caller: Caller, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each change, until the returned function is called.

        Raises:
            AskError: There are as many subscriptions as there may be.
        """
        watch = self._watches.get(caller.key)
        if len(self) >= self._most or (watch is not None and len(watch.listeners) >= self._most_of_a_caller):
            raise AskError("Too many subscriptions are open. End one first.")
        if watch is None:
            watch = self._watches[caller.key] = _Watch(self._run(caller))
        key = object()
        watch.listeners[key] = listener

        def unsubscribe() -> None:
            if watch.listeners.pop(key, None) is not None and not watch.listeners:
                watch.task.cancel()
                if self._watches.get(caller.key) is watch:
                    del self._watches[caller.key]

        return unsubscribe

    async def _run(self, caller: Caller) -> None:
        before: object = None
        while True:
            try:
                now = await self._look(caller)
            except AskError as error:  # the API may be away, or the token revoked: a read of the resource says so
                log.debug("The circuits can't be watched: %s", error)
            else:
                if before is not None and now != before:
                    for listener in list(self._watches[caller.key].listeners.values()):
                        listener()
                before = now
            await asyncio.sleep(self._every_s)


class _Watch:
    """One caller's watch."""

    def __init__(self, run: Awaitable[None]) -> None:
        self.listeners: dict[object, Listener] = {}
        self.task = asyncio.ensure_future(run)
