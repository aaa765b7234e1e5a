"""The page ``system``: brokers, topics, groups, servers, storage and versions."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Mapping
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import json_answer
from switchgear_api.console.board import Boards
from switchgear_api.console.components import Components
from switchgear_api.console.figures import utc_now
from switchgear_api.console.groups import described as described_group
from switchgear_api.console.groups import lag_of
from switchgear_api.console.records import iso
from switchgear_api.console.servers import ask_servers
from switchgear_api.parameters import Parameters
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.settings import Settings
from switchgear_sinks.repository import ListChangesRepository, ToolMetricsRepository
from switchgear_sinks.store import Database, Store

log = structlog.get_logger()

KEPT_S: Final = 5.0
LISTS_WITHIN: Final = timedelta(hours=1)
KAFKA_LIMIT_S: Final = 8.0
_PACKAGES: Final = ("switchgear", "aiokafka", "clickhouse-connect", "chdb", "starlette", "uvicorn")


class System(Handlers):
    """The handler.

    Args:
        store: The store.
        boards: The age of the circuits.
        components: What is wrong.
        settings: The brokers and topics.
        kafka: Ask the brokers.
    """

    def __init__(
        self, store: Store, boards: Boards, components: Components, settings: Settings, *, kafka: bool
    ) -> None:
        self._store = store
        self._db = Database(store)
        self._boards = boards
        self._components = components
        self._settings = settings
        self._kafka = kafka
        self._turn = asyncio.Lock()
        self._answer: dict[str, Any] = {}
        self._read_at = float("-inf")

    @route("GET", "/v1/console/system", Role.READ)
    async def __call__(self, request: Request) -> Response:
        """Show brokers, topics, groups, servers, storage and versions."""
        Parameters.of(request)
        Rights.of(request).check_unrestricted("The system, which all tenants share,")
        async with self._turn:
            if time.monotonic() - self._read_at > KEPT_S:
                self._answer, self._read_at = await self._read(), time.monotonic()
        return json_answer({"problems": self._components.problems(named=True)} | self._answer)

    async def _read(self) -> dict[str, Any]:
        now = utc_now()
        kafka, servers, storage, lists, newest = await asyncio.gather(
            self._ask_kafka(),
            ask_servers(self._settings),
            self._storage(),
            ListChangesRepository(self._db).by_service(now - LISTS_WITHIN, now),
            ToolMetricsRepository(self._db).get_newest_arrival(),
        )
        age_s = self._boards.fleet.age_s
        return {
            "checked_at": iso(now),
            "data": {
                "newest_event_at": iso(newest),
                "newest_event_age_s": None if newest is None else round((now - newest).total_seconds(), 1),
                "circuits_fresh": self._boards.fleet.fresh,
                "circuits_age_s": None if age_s is None else round(age_s, 3),
            },
            **kafka,
            "servers": servers,
            "storage": storage,
            "changes_of_tool_lists_in_an_hour": lists,
            "store": {
                "location": str(self._store.location),
                "version": self._store.server_version,
                "retention_days": self._settings.retention_days,
            },
            "versions": versions(),
        }

    async def _storage(self) -> list[dict[str, Any]]:
        return await self._db.rows(
            """SELECT table, sum(rows) AS rows, sum(bytes_on_disk) AS bytes, count() AS parts,
            nullIf(min(min_time), toDateTime(0)) AS oldest_at
            FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table ORDER BY bytes DESC LIMIT 100"""
        )

    async def _ask_kafka(self) -> dict[str, Any]:
        if not self._kafka:
            return {"kafka": {"answers": False, "why": "This API does not follow Kafka."}}
        try:
            async with asyncio.timeout(KAFKA_LIMIT_S):
                return await self._describe()
        except (TimeoutError, KafkaError, OSError) as error:
            log.warning("the brokers could not be described", why=str(error) or type(error).__name__)
            return {"kafka": {"answers": False, "why": str(error) or type(error).__name__}}

    async def _describe(self) -> dict[str, Any]:
        settings, topics = self._settings, self._settings.topics
        admin = AIOKafkaAdminClient(**settings.kafka.options())
        consumer = AIOKafkaConsumer(**settings.kafka.options(), group_id=None, enable_auto_commit=False)
        try:
            await admin.start()
            cluster = await admin.describe_cluster()
            names = [each.name for each in settings.topic_definitions()]
            described = await admin.describe_topics(names)
            places = [
                TopicPartition(each["topic"], part["partition"]) for each in described for part in each["partitions"]
            ]
            await consumer.start()
            starts, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            committed = {
                group: await admin.list_consumer_group_offsets(group)
                for group in (topics.worker_group, topics.sink_group)
            }
            # One at a time: aiokafka reads an answer about several groups wrongly.
            members = {
                group: described_group(await admin.describe_consumer_groups([group]), group)[0] for group in committed
            }
        finally:
            await consumer.stop()
            await admin.close()
        return {
            "kafka": {"answers": True, "bootstrap_servers": settings.kafka_bootstrap_servers},
            "brokers": [
                {"node": each["node_id"], "host": each["host"], "port": each["port"], "controller": each["node_id"] == cluster["controller_id"]}
                for each in cluster["brokers"]
            ],
            "topics": [_topic(each, starts, ends) for each in described],
            "groups": [
                {"group": group, "members": members[group], "lag": lag_of(offsets, starts, ends)}
                for group, offsets in committed.items()
            ],
        }  # fmt: skip


def versions() -> dict[str, str | None]:
    """Return the versions of what runs here."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _topic(described: Mapping[str, Any], starts: Mapping[Any, int], ends: Mapping[Any, int]) -> dict[str, Any]:
    places = [TopicPartition(described["topic"], each["partition"]) for each in described["partitions"]]
    return {
        "topic": described["topic"],
        "partitions": len(places),
        "records": sum(ends[place] - starts[place] for place in places),
        "end": sum(ends[place] for place in places),
    }
