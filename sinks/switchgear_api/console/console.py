"""The console's server side as a whole: its routes, and the tasks that run behind them."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

import structlog
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import BusyError
from switchgear_api.console.actions import Actions
from switchgear_api.console.audit import Audit
from switchgear_api.console.board import Boards
from switchgear_api.console.calls import Calls
from switchgear_api.console.components import Components
from switchgear_api.console.dead_letters import DeadLetters
from switchgear_api.console.fleet import ConsoleCircuits
from switchgear_api.console.known import Known
from switchgear_api.console.live import Live
from switchgear_api.console.now import fleet_of, is_troubled
from switchgear_api.console.policies import EffectivePolicies, Policies
from switchgear_api.console.problems import without_names
from switchgear_api.console.system import System
from switchgear_api.console.timeline import Timeline
from switchgear_api.console.tool import ToolPage
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.event_stream import EventStream
from switchgear_http.headers import takes_gzip
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Role
from switchgear_http.problem import encoded
from switchgear_http.routing import EVENTS, Handlers, Reply, Route, route
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store

log = structlog.get_logger()

MOST_WATCHERS: Final = 100
"""Consoles at a time. The server's other connections stay free for everything else."""
MOST_MINUTES: Final = 24 * 60
CHECK_S: Final = 5.0
"""A stream asks this often whether its client still has the same rights."""
_MOST_TENANTS: Final = 32


class Console(Handlers):
    """The console over one store. Use it as ``async with`` around the server.

    Args:
        store: The store to read.
        settings: The brokers, topics and limits.
        follow: Follow the circuits topic, so that changes show at once.
    """

    def __init__(self, store: Store, settings: Settings, *, follow: bool) -> None:
        self.fleet = ConsoleCircuits(store, settings, follow=follow)
        self.components = Components(store, self.fleet, settings, kafka=follow)
        self.boards = Boards(store, self.fleet, self.components, settings)
        db = self.boards.db
        effective = EffectivePolicies(settings, kafka=follow)
        audit = Audit(db)
        actions = Actions(settings, self.fleet, self.boards, audit, effective.mode_of)
        self._parts = (
            ToolPage(db, self.boards, effective, settings),
            Known(db, self.fleet, effective, settings),
            Timeline(db),
            System(store, self.boards, self.components, settings, kafka=follow),
            DeadLetters(settings, audit),
            Calls(db),
            actions,
            audit,
            Policies(db, settings, effective, actions),
        )
        self._live = Live(self.boards)
        self.boards.position = lambda: self._live.last_id
        self._of_tenants: dict[str, Live] = {}
        self._tasks: dict[Live | Components, asyncio.Task[None]] = {}

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of the console, and of what the command line shares with it."""
        return (*super().routes, *(each for part in self._parts for each in part.routes))

    async def __aenter__(self) -> Self:
        self.fleet.start()
        self._run(self.components)
        self._run(self._live)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_streams()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.fleet.stop()

    def end_streams(self) -> None:
        """End the streams, so that the server can stop."""
        for live in [self._live, *self._of_tenants.values()]:
            live.close()

    @route("GET", "/v1/console/now", Role.READ, query("minutes tenant troubled"))
    async def now(self, request: Request) -> Response:
        """Show every tool and family, those in trouble first.

        With ``troubled=1`` only the tools in trouble. The totals are those of all.
        """
        given = Parameters.of(request)
        troubled = given.flag("troubled")
        minutes = int(given.number("minutes", 60, 1, MOST_MINUTES))
        rights = Rights.of(request)
        snapshot = await self.boards.snapshot(minutes, rights.tenant(given.text("tenant")), circuits=rights.all_tenants)
        headers = {"cache-control": "no-store", "vary": "Accept-Encoding"}
        principal = principal_of(request.scope)
        if principal.tools:
            tools = [row for row in snapshot.content["tools"] if principal.may(Role.READ, tool=row["tool"])]
            families = [row for row in snapshot.content["families"] if principal.may(Role.READ, tool=row["tool"])]
            shown = [row for row in tools if is_troubled(row)] if troubled else tools
            data = snapshot.content["data"]
            data = {**data, "problems": without_names(data["problems"])}
            content = {**snapshot.content, "data": data, "fleet": fleet_of(tools), "tools": shown, "families": families}
            return Response(encoded(content), media_type="application/json", headers=headers)
        if troubled:
            return Response(snapshot.troubled, media_type="application/json", headers=headers)
        if takes_gzip(request.headers):
            body = await asyncio.to_thread(lambda: snapshot.packed)
            return Response(body, media_type="application/json", headers=headers | {"content-encoding": "gzip"})
        return Response(snapshot.body, media_type="application/json", headers=headers)

    @route(
        "GET",
        "/v1/console/live",
        Role.READ,
        query("after"),
        answers={200: Reply("The events.", EVENTS)},
        is_stream=True,
    )
    async def live(self, request: Request) -> EventStream:
        """Follow what changes, as server-sent events.

        A stream of events ``circuit``, ``stats``, ``heartbeat`` and ``reset``.
        """
        given = Parameters.of(request)
        rights, principal = Rights.of(request), principal_of(request.scope)
        live = self._live if rights.all_tenants else self._live_of(rights.tenant(None) or "")
        if sum(each.streams for each in [self._live, *self._of_tenants.values()]) >= MOST_WATCHERS:
            raise BusyError(f"{MOST_WATCHERS} consoles are open.", hint="Close one, or load the page now and then.")
        visible = (lambda name: principal.may(Role.READ, tool=name)) if principal.tools else None
        after = request.headers.get("last-event-id") or given.text("after")
        return EventStream(live, live.events(after, visible), (CHECK_S, CHECK_S))

    def _live_of(self, tenant: str) -> Live:
        found = self._of_tenants.get(tenant)
        if found is None:
            found = self._of_tenants[tenant] = Live(self.boards, tenant)
            self._run(found)
            unused = [name for name, each in self._of_tenants.items() if not each.streams and each is not found]
            for name in unused[: max(0, len(self._of_tenants) - _MOST_TENANTS)]:
                ended = self._of_tenants.pop(name)
                if (task := self._tasks.pop(ended, None)) is not None:
                    task.cancel()
        return found

    def _run(self, work: Live | Components) -> None:
        self._tasks[work] = asyncio.create_task(work.run(), name="console")
