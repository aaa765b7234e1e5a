"""The worker process: its checks before the start, its parts, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import faust
import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from faust.types import StreamT, TopicT
from mode.types.signals import BaseSignalT

from switchgear.fleet import FleetFold
from switchgear.fleet.registry import Limits
from switchgear.policies import PolicySet
from switchgear_http.serve import stop_on_signals
from switchgear_http.server import collect_seldom
from switchgear_schemas import BrokerUnavailableError, SettingsError, SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_stream.app import WorkerApp, build_app
from switchgear_stream.batching import BatchQueue
from switchgear_stream.health_monitor import HealthMonitor
from switchgear_stream.http import probes_of, serving_probes
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner
from switchgear_stream.placement import check_group, check_placed
from switchgear_stream.publisher import Publisher
from switchgear_stream.topic_reader import read_to_end
from switchgear_stream.topic_watch import TopicWatch, judge
from switchgear_stream.watchdog import Watchdog

log = structlog.get_logger()
EX_SOFTWARE: Final = 70
CHECK_S: Final = 10.0
"""Longest wait for a first answer of Kafka. Faust itself would wait indefinitely."""
RETRY_S: Final = 0.5
STOP_S: Final = 5.0
"""Longest wait for Faust to leave its group. After it, the group's session timeout ends the membership."""
FLUSH_S: Final = 3.0


def run_worker(settings: Settings, *, instance_id: str | None = None) -> NoReturn:
    """Run a worker in this process until SIGTERM or SIGINT (exit code 0) or a failure (70).

    Args:
        settings: The settings, as loaded.
        instance_id: A stable name of this worker (of its pod or slot), for static membership.

    Raises:
        SwitchgearError: The worker could not start: no broker, wrong topics, an address in use, or a wrong policy file.
    """
    try:
        code = asyncio.run(_run(settings, instance_id))
    except SwitchgearError:
        raise
    except BaseException as error:
        log.critical("worker_failed", reason=repr(error), exc_info=error)
        code = EX_SOFTWARE
    _exit(code)


async def _run(settings: Settings, instance_id: str | None) -> int:
    policies = PolicySet.load(settings.policy_file)
    await _check_topics(settings)
    await check_group(settings)
    watchdog = Watchdog(settings.worker_session_timeout_s)
    stop = stop_on_signals()
    metrics = WorkerMetrics()
    app, table, topic = build_app(settings, instance_id=instance_id)
    publisher = Publisher(settings)
    fold = FleetFold(
        table.rows,
        policies,
        partitions=settings.topic_partitions,
        late_after_s=settings.late_after_s,
        limits=Limits(tool_idle_s=settings.executions_retention_hours * 3600.0),
        family_pattern=settings.family_pattern,
    )
    owner = Owner(
        settings=settings,
        app=app,
        table=table,
        fold=fold,
        publisher=publisher,
        watchdog=watchdog,
        metrics=metrics,
    )
    watch = TopicWatch(settings, publisher, owner)
    monitor = HealthMonitor(
        settings=settings,
        app=app,
        table=table,
        owner=owner,
        watchdog=watchdog,
        metrics=metrics,
        kafka_answers=publisher.answers,
        topics=watch,
    )
    _attach(app, topic, owner)
    probes = probes_of(owner, monitor, metrics)
    async with serving_probes(probes, settings.worker_http), _started(publisher, settings):
        collect_seldom()
        tasks = {
            asyncio.create_task(watchdog.run()): "watchdog",
            asyncio.create_task(monitor.run()): "health monitor",
            asyncio.create_task(watch.run()): "topic watch",
            asyncio.create_task(_run_faust(app)): "faust",
        }
        code = await wait_for_end(tasks, stop, watchdog)
        _exit_in_time(code)
        if code == 0:
            await leave(app)
        for task in tasks:
            task.cancel()
    return code


def _attach(app: WorkerApp, topic: TopicT, owner: Owner) -> None:
    async def fold(stream: StreamT[Any]) -> None:
        assert isinstance(stream, faust.Stream)
        queue = BatchQueue(owner.batch)
        async with asyncio.TaskGroup() as tasks:
            processing = tasks.create_task(queue.run())
            # noack: only the owner acknowledges a batch, when the broker has everything that the batch changed.
            async for event in stream.noack().events():
                await queue.put(event)
            processing.cancel()

    async def revoked(_app: object, /, *_: Any, signal: BaseSignalT[Any], **__: Any) -> None:  # noqa: ARG001 - mode's signature
        await owner.on_revoked()

    async def assigned(_app: object, /, *given: Any, signal: BaseSignalT[Any], **__: Any) -> None:  # noqa: ARG001 - mode's signature
        await owner.on_assigned(given[0])

    app.on_partitions_assigned.connect(assigned, weak=False)
    app.agent(topic, name="fold")(fold)
    app.on_partitions_revoked.connect(revoked, weak=False)


async def _run_faust(app: WorkerApp) -> None:
    """Start Faust, and return when it has stopped or crashed."""
    await app.start()
    await app.wait_until_stopped()
    if app.crash_reason is not None:
        raise app.crash_reason


async def wait_for_end(tasks: dict[asyncio.Task[None], str], stop: asyncio.Event, watchdog: Watchdog) -> int:
    """Wait until ``stop`` is set, a task ends or the watchdog reports a failure. Return the exit code; any end but ``stop`` is a failure."""
    stopping = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Future[Any]] = {*tasks, stopping, watchdog.failed}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task, name in tasks.items():
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            watchdog.report(f"The worker's {name} ended: {error!r}.", error)
    stopping.cancel()
    return EX_SOFTWARE if watchdog.failed.done() else 0


async def leave(app: WorkerApp, limit_s: float = STOP_S) -> None:
    """Commit and leave the group, so that the circuits move at once. Give up after ``limit_s``."""
    log.info("stopping")
    try:
        async with asyncio.timeout(limit_s):
            await app.stop()
    except TimeoutError:
        log.warning("stop_timeout", what="Faust did not stop", seconds=limit_s)


@asynccontextmanager
async def _started(publisher: Publisher, settings: Settings) -> AsyncIterator[None]:
    try:
        await publisher.start()
    except (TimeoutError, KafkaError) as error:
        raise _broker_unavailable(settings, f"({error!r})") from error
    try:
        yield
    finally:
        await publisher.stop()


def _exit_in_time(code: int) -> None:
    """End the process later even if closing hangs: a stop of Faust during a rebalance ignores its cancellation."""
    timer = threading.Timer(STOP_S + FLUSH_S, _exit, args=(code,))
    timer.daemon = True
    timer.start()


def _exit(code: int) -> NoReturn:
    """Exit without waiting for Faust's threads. Everything that must be on the broker is there."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _check_topics(settings: Settings) -> None:
    """Check that every topic exists, with at least the partitions of the settings.

    Raises:
        BrokerUnavailableError: No broker answered in time.
        SwitchgearError: A topic is missing.
        SettingsError: A topic has too few partitions, or all have another number than circuits are kept in.
    """
    try:
        async with asyncio.timeout(CHECK_S):
            found = await _partition_counts(settings)
    except (TimeoutError, KafkaError) as error:
        raise _broker_unavailable(settings, f"within {CHECK_S:g} s") from error
    wanted = settings.topic_definitions()
    missing = [topic.name for topic in wanted if topic.name not in found]
    if missing:
        raise SwitchgearError(
            f"Kafka has no topic {', '.join(missing)}.", hint="Create what is missing with `switchgear topics ensure`."
        )
    counts = {found[topic.name] for topic in wanted if topic.name != settings.topics.dead}
    if counts != {settings.topic_partitions}:
        placed = await _is_placed(settings, found[settings.topics.changelog])
        if not placed and len(counts) == 1:
            raise SettingsError(
                f"The topic {wanted[0].name} has {counts.pop()} partitions, topic_partitions says {settings.topic_partitions}.",
                hint="Set SWITCHGEAR_TOPIC_PARTITIONS to what the topics have.",
            )
    problem = judge(found, settings).problem
    if problem is not None:
        raise SettingsError(problem)


async def _is_placed(settings: Settings, partitions: int) -> bool:
    """Return whether the changelog says that circuits are placed as the settings say.

    Raises:
        SettingsError: They are placed otherwise.
        BrokerUnavailableError: The broker did not deliver the changelog within 60 s.
    """
    said = False
    async for record in read_to_end(settings, settings.topics.changelog, range(partitions)):
        said = check_placed(record.key or b"", record.value, settings) or said
    return said


async def _partition_counts(settings: Settings) -> dict[str, int]:
    while True:
        admin = AIOKafkaAdminClient(**settings.kafka.options(), request_timeout_ms=10_000)
        try:
            await admin.start()
            return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
        except KafkaError:
            await asyncio.sleep(RETRY_S)
        finally:
            await admin.close()


def _broker_unavailable(settings: Settings, how: str) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"No Kafka broker answered at {settings.kafka_bootstrap_servers} {how}.",
        hint="Start one (`switchgear up`), or set SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
    )
