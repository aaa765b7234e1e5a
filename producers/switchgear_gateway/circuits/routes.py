"""``GET /v1/circuits`` and ``GET /v1/circuits/stream``."""

from __future__ import annotations

import gzip
import random
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_gateway.circuits.hub import CircuitHub, Follower
from switchgear_gateway.circuits.stream import circuit_stream, snapshot_json
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_gateway.shared import Shared
from switchgear_http.event_stream import PIECE_BYTES
from switchgear_http.headers import takes_gzip
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import EVENTS, Handlers, Parameter, Reply, route
from switchgear_http.visibility import CIRCUITS, Named

MAX_STREAMS: Final = 5_000
_LONGEST_GLOB: Final = 512
_SNAPSHOTS: Final = 16
_ZIPPED_FROM: Final = 1_024
_ZIP_LEVEL: Final = 5
FOLLOWERS: Final = (Role.READ, Role.EMIT)
"""Who follows circuits shows them, or decides about its calls by them."""
_TOOL: Final = Parameter("tool", "Glob of tools.")
_LAST: Final = Parameter("Last-Event-ID", "Go on after it.", place="header")
_EMITTER: Final = Parameter(
    "emitter_id", "Your process. With a token of one tenant you get this process's probe leases."
)
_VARY: Final = "Accept-Encoding, Authorization"


class CircuitRoutes(Handlers):
    """The two routes. Run :meth:`run` for as long as the server runs.

    Args:
        follower: The gateway's follower. It must not have begun to read.
        shared: What all routes share.
        max_streams: Streams at a time.

    Raises:
        SwitchgearError: The follower has read circuits already.
    """

    def __init__(self, follower: Follower, shared: Shared, *, max_streams: int = MAX_STREAMS) -> None:
        self._hub = CircuitHub(follower)
        self._tenant_tools = shared.tenant_tools
        self._tenant_tools.on_change = self._hub.wake
        self._family_pattern = shared.family_pattern
        self._max_streams = max_streams
        self._bodies = BoundedDict[CircuitFilter, _Snapshot](_SNAPSHOTS)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return self._hub.streams

    @property
    def loaded(self) -> bool:
        """Whether the circuits were read once. Until then both routes answer 503."""
        return self._hub.loaded

    async def run(self) -> None:
        """Pass on changes until it is cancelled."""
        await self._hub.run()

    def stop(self) -> None:
        """End the streams, so that their clients go to another gateway. Call it before the server waits for its requests to end."""
        self._hub.close()

    @route(
        "GET",
        "/v1/circuits",
        FOLLOWERS,
        (_TOOL,),
        answers={
            200: Reply("The circuits.", {"application/json": {"schema": CIRCUITS}}),
            304: Reply("They are those of If-None-Match.", None),
        },
    )
    async def snapshot(self, request: Request) -> Response:
        """Show the circuits, by id."""
        seen = self._looking(request)()
        zipped = takes_gzip(request.headers)
        snapshot = self._current(seen)
        headers = {"ETag": snapshot.tag, "Cache-Control": "no-cache", "Vary": _VARY}
        if snapshot.tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=headers)
        body = snapshot.body
        if zipped and len(body) >= _ZIPPED_FROM:
            if snapshot.zipped is None:
                snapshot.zipped = await run_in_threadpool(gzip.compress, body, _ZIP_LEVEL, mtime=0)
            body = snapshot.zipped
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        return StreamingResponse(_sliced(body), headers=headers, media_type="application/json")

    @route(
        "GET",
        "/v1/circuits/stream",
        FOLLOWERS,
        (_TOOL, _LAST, _EMITTER),
        answers={200: Reply("Server-sent events.", EVENTS)},
        description="Events: `snapshot`, `circuit` and `heartbeat`.",
        is_stream=True,
    )
    async def stream(self, request: Request) -> ASGIApp:
        """Send the circuits, and each change of them."""
        look = self._looking(request)
        if self._hub.streams >= self._max_streams:
            raise _busy(f"This gateway has {self._max_streams} streams.", "Use another gateway, or wait.")
        return circuit_stream(self._hub, look, request.headers.get("last-event-id"))

    def _looking(self, request: Request) -> Callable[[], CircuitFilter]:
        """Return a function that returns the client's circuits, always the same object until they change.

        Raises:
            ProblemError: The request is refused.
        """
        principal = principal_of(request.scope)
        globs = request.query_params.getlist("tool")
        if len(globs) > 1 or any(not 0 < len(glob) <= _LONGEST_GLOB for glob in globs):
            raise ProblemError(
                422,
                f"tool is not one glob of 1 to {_LONGEST_GLOB} characters.",
                "Write one, such as ?tool=mcp:github:*.",
            )
        if not self._hub.loaded:
            raise _busy("This gateway has not read the circuits yet.", "Try again in a moment.")
        if self._hub.closed:
            raise _busy("This gateway stops.", "Use another gateway, or wait.")
        return self._looks(principal, globs[0] if globs else None, request.query_params.get("emitter_id", ""))

    def _looks(self, principal: Principal, wanted: str | None, emitter_id: str) -> Callable[[], CircuitFilter]:
        def made(named: Named) -> CircuitFilter:
            return CircuitFilter.of(principal, wanted, self._family_pattern, named=named, emitter_id=emitter_id)

        known = self._tenant_tools.of(principal)
        seen = made(known)
        if not seen.sight.by_name:
            return lambda: seen

        def look() -> CircuitFilter:
            nonlocal known, seen
            named = self._tenant_tools.of(principal)
            if named is not known:
                known, seen = named, made(named)
            return seen

        return look

    def _current(self, seen: CircuitFilter) -> _Snapshot:
        changes = self._hub.changes
        found = self._bodies.get(seen)
        if found is None or found.cursor != changes.cursor:
            found = _Snapshot(self._hub, seen)
        self._bodies[seen] = found  # the newest
        return found


class _Snapshot:
    """The body of one answer, and its tag."""

    def __init__(self, hub: CircuitHub, seen: CircuitFilter) -> None:
        self.cursor = hub.changes.cursor
        self.tag = f'W/"{self.cursor}.{seen.checksum:08x}"'
        head = b'{"version":"%s","circuits":{' % self.cursor.encode()
        self.body = b"".join(snapshot_json(hub.changes, seen, head))
        self.zipped: bytes | None = None


def _busy(detail: str, hint: str) -> ProblemError:
    """Return 503 with a wait that differs by client, so that not all come back at once."""
    return ProblemError(503, detail, hint, {"Retry-After": str(random.randint(1, 5))})  # noqa: S311 - spreads clients


async def _sliced(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]
