"""Run alerts: a member of the consumer group, and the HTTP server for its health."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from switchgear.runtime import kafka_log
from switchgear.runtime.backoff import Backoff
from switchgear_alerts.config import AlertsFile, load
from switchgear_alerts.dead_letters import DeadLetterFile
from switchgear_alerts.errors import AlertsFileError
from switchgear_alerts.http import create_server
from switchgear_alerts.metrics import AlertsMetrics
from switchgear_alerts.one_active import make_assignor
from switchgear_alerts.receivers import make_receiver
from switchgear_alerts.receivers.base import Context, Receiver
from switchgear_alerts.state_topic import StateTopic
from switchgear_alerts.turn import Turn
from switchgear_http.serve import Work, serve, stop_on_signals
from switchgear_http.sockets import listen, url_of
from switchgear_schemas.connection import METADATA_MAX_AGE_MS
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_schemas.unreadable import guard

log = structlog.get_logger()

_POLL_MS: Final = 100
_POLL_ROWS: Final = 500
_SESSION_MS: Final = 10_000
_REBALANCE_MS: Final = 30_000
_START_LIMIT_S: Final = 30.0
_STOP_LIMIT_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_STUCK_AFTER_S: Final = 90.0
_SHOWN_OF_CLUSTER: Final = 8
"""Characters, of 22 with 128 random bits. So many tell the clusters of one organisation apart."""


async def run_alerts(settings: Settings, *, instance_id: str | None = None) -> None:
    """Send alerts until SIGTERM or SIGINT.

    Args:
        settings: The brokers, the alerts file and the address of ``/healthz``.
        instance_id: Static membership in the consumer group: a process that restarts under the same name goes on at once.

    Raises:
        AlertsFileError: The alerts file is missing or wrong.
        SettingsError: The address can't be listened on.
        SwitchgearError: The circuits topic does not exist.
    """
    rules = load_rules(settings)
    receivers = make_receivers(rules, settings)
    metrics = AlertsMetrics(rules.receivers)
    member = Member(settings, rules, receivers, metrics, instance_id)
    stopping = stop_on_signals()
    try:
        with listen(settings.alerts_http, "SWITCHGEAR_ALERTS_HTTP") as listening:
            server = create_server(metrics.registry, member.health)
            http = url_of(listening)
            log.info("started", http=http, receivers=sorted(receivers), file=str(settings.alerts_file))
            await serve(server, listening, stopping, [Work("member", member.run)], limit_s=_STOP_LIMIT_S)
    finally:
        for receiver in receivers.values():
            await receiver.close()
    log.info("stopped")


def load_rules(settings: Settings) -> AlertsFile:
    """Return the alerts file of the settings.

    Raises:
        AlertsFileError: None is named, or it is wrong.
    """
    if settings.alerts_file is None:
        raise AlertsFileError("No alerts file is named.", hint="Give one by --file, or set SWITCHGEAR_ALERTS_FILE.")
    return load(settings.alerts_file)


def make_receivers(rules: AlertsFile, settings: Settings) -> dict[str, Receiver]:
    """Return the receivers by name, with their secrets read.

    Raises:
        AlertsFileError: A secret can't be read.
    """
    context = context_of(settings)
    return {name: make_receiver(name, options, context) for name, options in rules.receivers.items()}


def context_of(settings: Settings) -> Context:
    """Return what receivers know of the system."""
    return Context(console_url=settings.console_url, source=settings.topic_prefix.rstrip(".") or "switchgear")


async def fleet_name(settings: Settings) -> str:
    """Return what tells this fleet from others: the topic prefix, and the beginning of the id that Kafka gives its cluster.

    Raises:
        KafkaError: No broker answers.
    """
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        await admin.start()
        cluster = (await admin.describe_cluster()).get("cluster_id") or ""
    finally:
        await admin.close()
    return "-".join(filter(None, (context_of(settings).source, cluster[:_SHOWN_OF_CLUSTER])))


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A member of the consumer group. While it has the partitions, it has a :class:`Turn`.

    Args:
        settings: The brokers and topics.
        rules: The alerts file.
        receivers: By name.
        metrics: What is counted.
        instance_id: See :func:`run_alerts`.
    """

    def __init__(
        self,
        settings: Settings,
        rules: AlertsFile,
        receivers: Mapping[str, Receiver],
        metrics: AlertsMetrics,
        instance_id: str | None = None,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._receivers = receivers
        self._metrics = metrics
        self._instance_id = instance_id
        folder = settings.alerts_state_dir or settings.data_dir / "alerts"
        self._dead = DeadLetterFile(folder)
        self._assignor = make_assignor()
        self._fleet = ""
        self._assigned: frozenset[TopicPartition] | None = None
        self._turn: Turn | None = None
        self._stack = contextlib.AsyncExitStack()
        self._lock = asyncio.Lock()
        self._stepped_at = time.monotonic()
        self._problem: str | None = "starting"

    def health(self) -> tuple[bool, bool, str | None]:
        """Return whether the process is alive, whether it is ready, and what is wrong."""
        stuck = time.monotonic() - self._stepped_at > _STUCK_AFTER_S
        joined = self._problem is None and self._assigned is not None and (not self._assigned or self._turn is not None)
        return not stuck, joined, self._problem or (None if joined else "joining the consumer group")

    async def run(self) -> None:
        """Follow the circuits until cancelled. If Kafka fails, begin again from what is saved.

        Raises:
            SwitchgearError: The circuits topic does not exist.
        """
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=(0.5, 1.5))
        while True:
            began = time.monotonic()
            try:
                await self._session()
            except (KafkaError, OSError, TimeoutError) as error:
                self._problem = f"{type(error).__name__}: {error}".removesuffix(": ")
                log.warning("Kafka failed, beginning again", reason=self._problem)
            if time.monotonic() - began > 2 * _LONGEST_PAUSE_S:
                backoff.reset()
            self._stepped_at = time.monotonic()
            await asyncio.sleep(backoff.next_s())

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """End the turn. After this another process may begin one."""
        del revoked
        self._assigned = None
        async with self._lock:
            await self._end_turn()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note the partitions: all of them, or none."""
        self._assigned = frozenset(assigned)

    async def _session(self) -> None:
        consumer: Any = AIOKafkaConsumer(
            **self._settings.kafka.options(),
            group_id=self._settings.topics.alerts_group,
            group_instance_id=self._instance_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(self._assignor,),
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        self._assigned = None
        consumer.subscribe([self._settings.topics.circuits], listener=self)
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                await consumer.start()
                kafka_log.answered()
                found = await consumer.topics()
            if self._settings.topics.circuits not in found:
                raise SwitchgearError(
                    f"Kafka has no topic {self._settings.topics.circuits}.",
                    hint="Create it with `switchgear topics ensure`, or correct SWITCHGEAR_TOPIC_PREFIX.",
                )
            async with asyncio.timeout(_START_LIMIT_S):
                self._fleet = await fleet_name(self._settings)
            guard(consumer)
            while True:
                async with self._lock:
                    await self._follow_assignment(consumer)
                fetched = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_POLL_ROWS)
                kafka_log.look(consumer)
                async with self._lock:
                    if self._turn is not None:
                        await self._turn.step(consumer, fetched)
                self._problem = None
                self._stepped_at = time.monotonic()
                await asyncio.sleep(0)  # getmany does not yield while there is more
        finally:
            await self._end_turn()
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(_STOP_LIMIT_S):
                    await consumer.stop()

    async def _follow_assignment(self, consumer: Any) -> None:
        """Begin a turn if the partitions are here and none has begun."""
        if self._turn is not None or not self._assigned:
            return
        assigned = self._assigned
        state = await self._stack.enter_async_context(StateTopic(self._settings.kafka, self._settings.topics))
        turn = Turn(self._rules, self._receivers, state, self._dead, self._metrics, self._fleet)
        await turn.begin(consumer, sorted(assigned))
        self._turn = turn

    async def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.end()
        stack, self._stack = self._stack, contextlib.AsyncExitStack()
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(_STOP_LIMIT_S):
                await stack.aclose()
