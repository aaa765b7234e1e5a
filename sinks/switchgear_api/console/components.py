"""Look at every part of the system again and again, and remember what is wrong and since when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from switchgear_api.console.figures import utc_now
from switchgear_api.console.fleet import ConsoleCircuits
from switchgear_api.console.groups import GroupLook, Progress, look_at
from switchgear_api.console.problems import Seen, Server, problems, since_when, without_names
from switchgear_api.console.servers import ask_servers
from switchgear_api.console.shapes import Problem
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store

log = structlog.get_logger()

LOOK_S: Final = 5.0
"""A look begins so long after the one before has ended."""
_KAFKA_LIMIT_S: Final = 4.0
_STORE_LIMIT_S: Final = 2.0


class Components:
    """What is wrong with the system now. Its looks run while :meth:`run` does.

    Args:
        store: ClickHouse.
        fleet: The circuits, and how long the brokers have not answered.
        settings: The brokers, groups and the processes with a name.
        kafka: Look at all. Without it nothing is known and nothing is wrong.
    """

    def __init__(self, store: Store, fleet: ConsoleCircuits, settings: Settings, *, kafka: bool) -> None:
        self._store = store
        self._fleet = fleet
        self._settings = settings
        self._kafka = kafka
        self._clients: tuple[AIOKafkaAdminClient, AIOKafkaConsumer] | None = None
        self._worker, self._sink = Progress(), Progress()
        self._unready: dict[str, str] = {}
        self._began: dict[str, datetime] = {}
        self._started_s = self._stored_s = time.monotonic()
        self._problems: Sequence[Problem] = ()

    def problems(self, *, named: bool) -> Sequence[Problem]:
        """Return what is wrong, the worst first.

        Args:
            named: Whether the reader may know the names and addresses of processes.
        """
        return self._problems if named else without_names(self._problems)

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while self._kafka:
                try:
                    await self.look()
                except Exception as error:  # noqa: BLE001 - the next look may find out
                    log.warning("the system could not be looked at", why=str(error) or type(error).__name__)
                await asyncio.sleep(LOOK_S)
        finally:
            await self._forget_clients()

    async def look(self) -> None:
        """Look at everything once. What can't be looked at is not known."""
        groups, servers, stored = await asyncio.gather(self._ask_groups(), self._ask_servers(), self._ask_store())
        at, clock_s = utc_now(), time.monotonic()
        self._stored_s = clock_s if stored else self._stored_s
        worker, sink, alerts = groups or (None, None, None)
        silent_s = self._fleet.age_s
        seen = Seen(
            at=at,
            kafka_silent_s=clock_s - self._started_s if silent_s is None else silent_s,
            circuits_changed_at=await self._changed_at() if worker is not None or servers else None,
            worker=None if worker is None else self._worker.after(worker, at, clock_s),
            sink=None if sink is None else self._sink.after(sink, at, clock_s),
            alerts_members=alerts.members if alerts is not None and alerts.used else None,
            store_silent_s=clock_s - self._stored_s,
            servers=servers,
        )
        self._problems, self._began = since_when(problems(seen), self._began, at)

    async def _changed_at(self) -> datetime | None:
        if not self._fleet.fresh:
            return None
        newest = max((each.changed_at for each in (await self._fleet.all()).values()), default=None)
        return None if newest is None else datetime.fromtimestamp(newest, UTC)

    async def _ask_store(self) -> bool:
        try:
            async with asyncio.timeout(_STORE_LIMIT_S):
                return await self._store.ping()
        except TimeoutError:
            return False

    async def _ask_servers(self) -> tuple[Server, ...]:
        """Return the named processes. One that is not ready for a moment, such as at a restart, counts from the second look on."""
        found = await ask_servers(self._settings)
        before, self._unready = self._unready, {each["server"]: each["why"] for each in found if not each["ready"]}
        return tuple(
            Server(each["server"], self._unready.get(each["server"]) if each["server"] in before else None)
            for each in found
        )

    async def _ask_groups(self) -> tuple[GroupLook, GroupLook, GroupLook] | None:
        topics = self._settings.topics
        try:
            async with asyncio.timeout(_KAFKA_LIMIT_S):
                admin, consumer = await self._connected()
                worker = await look_at(admin, consumer, topics.worker_group)
                sink = await look_at(admin, consumer, topics.sink_group)
                return worker, sink, await look_at(admin, consumer, topics.alerts_group)
        except (TimeoutError, KafkaError, OSError) as error:
            log.debug("the groups could not be looked at", why=str(error) or type(error).__name__)
            await self._forget_clients()
            return None

    async def _connected(self) -> tuple[AIOKafkaAdminClient, AIOKafkaConsumer]:
        """Return clients of the brokers: those of the last look, as long as they work."""
        if self._clients is None:
            options = self._settings.kafka.options()
            consumer = AIOKafkaConsumer(**options, group_id=None, enable_auto_commit=False)
            self._clients = AIOKafkaAdminClient(**options), consumer
            for each in self._clients:
                await each.start()
        return self._clients

    async def _forget_clients(self) -> None:
        if self._clients is not None:
            (admin, consumer), self._clients = self._clients, None
            await consumer.stop()
            await admin.close()
