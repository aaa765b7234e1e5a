"""Follow the fleet's circuits by a gateway's stream of server-sent events.

The stream begins with a snapshot of all circuits. If it breaks, it is opened again with the id of its last event, and the gateway
sends only what has changed since. Then comes a heartbeat, and another one at least every 15 s. It says whether the gateway itself is
up to date: only that confirms the circuits.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import unquote

import msgspec

from switchgear.classify.waits import from_headers as retry_after_s
from switchgear.follower.base import Follower
from switchgear.follower.table import CircuitTable
from switchgear.follower.view import CircuitView
from switchgear.over_http.events import ServerEvent, server_events
from switchgear.over_http.gateway import Gateway
from switchgear.over_http.replies import DENIED_RETRY_S
from switchgear.runtime.background_thread import Background, clean_up, stop_if_cancelled
from switchgear.runtime.backoff import Backoff
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    import httpx

log: Final = logging.getLogger("switchgear.follower")

SILENCE_S: Final = 45.0
"""A stream is dead after three missed heartbeats."""
_LOOK_S: Final = 1.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_WAIT_S: Final = 600.0
_ANSWER_LIMIT_S: Final = 15.0
_CLOSE_LIMIT_S: Final = 1.0
_REPORT_EVERY_S: Final = 5.0
_PATH: Final = "/v1/circuits/stream"


class _RefusedError(SwitchgearError):
    """The gateway answered with an error."""

    def __init__(self, problem: str, wait_s: float | None) -> None:
        super().__init__(problem)
        self.wait_s = wait_s


class _Snapshot(msgspec.Struct):
    circuits: dict[str, msgspec.Raw]


class _Heartbeat(msgspec.Struct):
    fresh: bool = True


class _Removal(msgspec.Struct):
    circuit_id: str = ""
    removed: bool = False


_snapshot: Final = msgspec.json.Decoder(_Snapshot).decode
_heartbeat: Final = msgspec.json.Decoder(_Heartbeat).decode
_removal: Final = msgspec.json.Decoder(_Removal).decode


class Age:
    """How long ago something was noted, by two clocks: a monotonic clock may stand still while a process is frozen.

    Args:
        clock: Returns monotonic seconds.
        wall: Returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._at: tuple[float, float] | None = None

    def note(self) -> None:
        """Note it now."""
        self._at = self._clock(), self._wall()

    def forget(self) -> None:
        """Forget that it was noted."""
        self._at = None

    def seconds(self) -> float | None:
        """Return the seconds by the clock that went further, or None if it was never noted."""
        at = self._at
        return None if at is None else max(0.0, self._clock() - at[0], self._wall() - at[1])


class GatewayFollower(Follower):
    """Keeps the table of circuits current over a gateway.

    Args:
        gateway: The gateway.
        background: The thread to run in.
        clock: Returns monotonic seconds.
        wall: Returns seconds since 1970.
    """

    stale_after_s: ClassVar[float] = SILENCE_S

    def __init__(
        self,
        gateway: Gateway,
        *,
        background: Background,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(background)
        self._gateway = gateway
        self._wall = wall
        self._confirmed = Age(clock, wall)
        self._heard = Age(clock, wall)
        self._connected = False
        self._connected_at = math.inf
        self._last_id = ""
        self._held: _Snapshot | None = None
        """A snapshot before the first heartbeat of its stream."""
        self._fresh: bool | None = None
        """What the last heartbeat of this stream said."""
        self._complete = False
        """Whether this process has read a snapshot."""
        self._throttle = Throttle(_REPORT_EVERY_S)
        self.emitter_id: Callable[[], str] = lambda: ""
        """Returns the name of this process in its events. A token of one tenant gets the probe leases of this process alone."""
        self.expired = self._is_expired

    def age_s(self) -> float | None:
        """Return the seconds since the gateway last confirmed the circuits, or None before the first time."""
        return self._confirmed.seconds()

    @property
    def connected(self) -> bool:
        """Whether there is a stream."""
        return self._connected

    def _is_expired(self) -> bool:
        age_s = self._confirmed.seconds()
        return age_s is not None and age_s >= self.stale_after_s

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            wait_s: float | None = None
            problem: str | None = None
            self._connected_at = math.inf
            try:
                await self._follow()  # a gateway ends its streams after some minutes, to check their tokens again
            except _RefusedError as error:
                problem, wait_s = error.message, error.wait_s
            except Exception as error:  # noqa: BLE001 - whatever the error, the follower tries again
                problem = f"the gateway at {self._gateway.url} can't be followed: {str(error) or 'no answer in time'}"
            stop_if_cancelled()
            pause = backoff.next_s()
            if time.monotonic() - self._connected_at > pause:  # it worked for a while
                backoff.reset()
                pause = backoff.next_s()
            if problem is not None and problem != self._last_error:
                log.warning("%s; trying again", problem)
            self._last_error = problem
            if wait_s is not None:
                pause = min(pause, wait_s)
            await asyncio.sleep(min(wait_s or 0.0, _LONGEST_WAIT_S) + _jitter(pause))

    async def _follow(self) -> None:
        """Follow one stream to its end."""
        client = self._gateway.client()
        try:
            headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
            if self._last_id:
                headers["Last-Event-ID"] = self._last_id
            emitter_id = self.emitter_id()
            asked = {"emitter_id": emitter_id} if emitter_id else {}
            request = client.build_request("GET", _PATH, params=asked, headers=headers, timeout=_timeout())
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                response = await client.send(request, stream=True)
                if response.status_code != 200:
                    raise self._refused(response, await response.aread())
            self._compare_clocks(response)
            self.tenant = unquote(response.headers.get("switchgear-tenant", ""))
            await self._read(response)
        finally:
            self._connected = False
            await clean_up(client.aclose(), _CLOSE_LIMIT_S, "closing the stream of a gateway")

    def _refused(self, response: httpx.Response, body: bytes) -> _RefusedError:
        status = response.status_code
        wait_s = DENIED_RETRY_S if status in {401, 403} else retry_after_s(response.headers)
        return _RefusedError(self._gateway.problem(status, body), wait_s)

    async def _read(self, response: httpx.Response) -> None:
        self._heard.note()
        self._held = self._fresh = None
        try:
            async with asyncio.timeout(None) as limit, contextlib.aclosing(self._chunks(response)) as chunks:
                silent = asyncio.create_task(self._until_silent(limit))
                try:
                    async for event in server_events(chunks):
                        if not self._connected:
                            self._connected, self._last_error = True, None
                            self._connected_at = time.monotonic()
                        self._take(event)
                finally:
                    silent.cancel()
        except TimeoutError:
            raise TimeoutError(f"nothing came for {SILENCE_S:g} s") from None

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        async for chunk in response.aiter_bytes():
            self._heard.note()
            yield chunk

    async def _until_silent(self, limit: asyncio.Timeout) -> None:
        """End the stream when it has been silent for too long, by either clock. A time-out of a read knows one clock only."""
        while (self._heard.seconds() or 0.0) < SILENCE_S:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(_LOOK_S)
        limit.reschedule(asyncio.get_running_loop().time())

    def _take(self, event: ServerEvent) -> None:
        """Take one event. What can't be read is counted, and the stream goes on."""
        try:
            if event.kind == "circuit":
                self._take_held(fresh=True)
                self._take_circuit(event.data)
            elif event.kind == "snapshot":
                self._held = _snapshot(event.data)
                if self._fresh is not None:
                    self._take_held(fresh=self._fresh)
            elif event.kind == "heartbeat":
                self._fresh = _heartbeat(event.data).fresh
                self._take_held(fresh=self._fresh)
                if self._fresh and self._complete:
                    self._confirmed.note()
                    self.loaded = self._read_here = True
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.table.refuse(str(error))
            left_out = self._throttle.admit("malformed")
            if left_out is not None:
                log.warning("%d events of the gateway are skipped, the last one: %s", left_out + 1, error)
        if self._held is None:  # a stream that ends now begins again with the snapshot
            self._last_id = event.last_id

    def _take_circuit(self, data: bytes) -> None:
        removal = _removal(data)
        if removal.removed:
            self.table.apply(removal.circuit_id.encode(), None)
            return
        view = self.table.apply(None, data)
        if view is not None:
            for listener in self.listeners:
                listener(view)

    def _take_held(self, *, fresh: bool) -> None:
        """Take all circuits of a snapshot. A gateway that is not up to date may know less than this process: its snapshot only adds."""
        snapshot, self._held = self._held, None
        if snapshot is None:
            return
        table = CircuitTable() if fresh else self.table
        known = self.table.views.copy()
        changed: list[CircuitView] = []
        for value in snapshot.circuits.values():
            view = table.apply(None, bytes(value))
            if view is not None and ((before := known.get(view.circuit_id)) is None or before.version != view.version):
                changed.append(view)
        if table is not self.table:
            self.table.malformed += table.malformed
            self.table.replace(table)
        self._complete = True
        for view in changed:
            for listener in self.listeners:
                listener(view)

    def _compare_clocks(self, response: httpx.Response) -> None:
        """Take the time of the answer as the broker's. It has whole seconds, so half a second is added."""
        parsed = email.utils.parsedate_tz(response.headers.get("date", ""))
        if parsed is not None:
            self.broker_time.heard(1000 * email.utils.mktime_tz(parsed) + 500)

    def _reset_in_child(self) -> None:
        """Forget the parent's stream in a forked child. The table stays as it was at the fork."""
        self._connected = self._read_here = self._complete = False
        self._last_id = ""
        self._confirmed.forget()


def _jitter(seconds: float) -> float:
    return random.uniform(0, seconds)  # noqa: S311 - spreads reconnects


def _timeout() -> httpx.Timeout:
    import httpx  # noqa: PLC0415 - see Gateway.client

    return httpx.Timeout(_ANSWER_LIMIT_S, read=SILENCE_S + 2 * _LOOK_S)
