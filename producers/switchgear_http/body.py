"""Limits of a request's body: its size, and the time that the client takes for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from starlette.types import Message, Receive, Send

from switchgear_http.limits import Limits
from switchgear_http.problem import ProblemError

_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
_CLOSE: Final = {"Connection": "close"}


class LimitedBody:
    """The two channels of one request.

    If the body breaks a limit, the application sees that the client has gone. Whatever the application answers then, the client
    gets the reason instead.

    Args:
        receive: The server's channel.
        send: The server's channel.
        limits: Size and times.
        declared: The ``Content-Length``; None if there is none.
        place: Counts the body while it is awaited, and may give it up. None: nobody counts it.

    Raises:
        ProblemError: The declared length is too large.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        limits: Limits,
        declared: int | None,
        place: Callable[[LimitedBody], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._size = 0
        self._complete = False
        self._started = False
        self._until: float | None = None
        self._place = place
        self._counted = ExitStack()
        self._wait: asyncio.Timeout | None = None
        self.refusal: ProblemError | None = None
        if declared is not None and declared > limits.body_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        """Return the next message, or that the client has gone."""
        if self.refusal is not None:
            return _DISCONNECT
        if self._complete:
            return await self._receive()
        if self._place is not None and self._until is None:
            self._counted.enter_context(self._place(self))
        message = await self._next()
        if message is None:
            self._counted.close()
            self.refusal = ProblemError(408, "The body did not arrive in time.", "Send it again, faster.", _CLOSE)
            return _DISCONNECT
        if message["type"] != "http.request":
            return message
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._complete:
            self._counted.close()
        if self._size > self._limits.body_bytes:
            self.refusal = self._too_large()
            return _DISCONNECT
        return message

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer, unless the request is refused."""
        if self.refusal is not None and not self._started:
            return
        self._started = True
        await self._send(message)

    def leave(self) -> None:
        """Wait for no more of the body: the application has ended."""
        self._counted.close()

    async def finish(self) -> None:
        """Send the refusal if there is one."""
        if self.refusal is not None and not self._started:
            await self.refusal.send(self._send)

    def give_up(self) -> None:
        """Refuse the body as too slow, now."""
        self._until = asyncio.get_running_loop().time()
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(self._until)

    async def _next(self) -> Message | None:
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._limits.body_s
        try:
            async with asyncio.timeout(min(self._limits.body_pause_s, self._until - now)) as self._wait:
                return await self._receive()
        except TimeoutError:
            return None
        finally:
            self._wait = None

    def _too_large(self) -> ProblemError:
        return ProblemError(
            413, f"The body is larger than {self._limits.body_bytes:,} bytes.", "Send it in smaller parts.", _CLOSE
        )
