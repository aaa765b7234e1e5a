"""The worker process: start everything, end it well, and never look alive when it isn't."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import faust
import structlog
from aiokafka.errors import KafkaError
from faust.types import StreamT, TopicT
from mode.types.signals import BaseSignalT

from switchgear.fleet import FleetFold
from switchgear.fleet.registry import Limits
from switchgear.policies import PolicySet
from switchgear_schemas import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_stream.app import WorkerApp, build_app
from switchgear_stream.grouping import Grouping
from switchgear_stream.health_monitor import HealthMonitor
from switchgear_stream.http import build_http, serving
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner
from switchgear_stream.preflight import check_topics
from switchgear_stream.publisher import Publisher
from switchgear_stream.watchdog import Watchdog

log = structlog.get_logger()
EX_SOFTWARE: Final = 70
STOP_S: Final = 5.0
"""Longest wait for Faust to leave its group; after it the session timeout does."""
FLUSH_S: Final = 3.0


def run_worker(settings: Settings, *, instance_id: str | None = None) -> NoReturn:
    """Run a worker in this process until SIGTERM or SIGINT (exit code 0) or a failure (70).

    Args:
        settings: as loaded.
        instance_id: a stable name of this worker (a pod's, a slot's), for static membership.

    Raises:
        SwitchgearError: it could not start: broker away, topics missing or different, address in use, wrong policy file.
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
    await check_topics(settings)
    watchdog = Watchdog(settings.worker_session_timeout_s)
    stop = _stop_on_signal()
    metrics = WorkerMetrics()
    app, table, topic = build_app(settings, instance_id=instance_id)
    publisher = Publisher(settings)
    fold = FleetFold(
        table.rows,
        policies,
        partitions=settings.topic_partitions,
        late_after_s=settings.late_after_s,
        limits=Limits(tool_idle_s=settings.executions_retention_hours * 3600.0),
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
    watch = HealthMonitor(
        settings=settings,
        app=app,
        table=table,
        owner=owner,
        watchdog=watchdog,
        metrics=metrics,
        kafka_answers=publisher.answers,
    )
    _attach(app, topic, owner)
    async with serving(build_http(owner, watch, metrics), settings.worker_http), _started(publisher, settings):
        tasks = {
            asyncio.create_task(watchdog.run(), name="watchdog"): "watchdog",
            asyncio.create_task(watch.run(), name="watch"): "watch",
            asyncio.create_task(_life_of(app), name="faust"): "faust",
        }
        code = await _first_end(tasks, stop, watchdog)
        _backstop(code)
        if code == 0:
            await _leave(app)
        for task in tasks:
            task.cancel()
    return code


def _attach(app: WorkerApp, topic: TopicT, owner: Owner) -> None:
    async def fold(stream: StreamT[Any]) -> None:
        assert isinstance(stream, faust.Stream)
        grouping = Grouping(owner.batch)
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(grouping.run())
            # noack: a batch is acknowledged by its owner when the broker has all that came of it, and by nobody else.
            async for event in stream.noack().events():
                await grouping.put(event)
            working.cancel()

    async def revoked(_app: object, /, *_: Any, signal: BaseSignalT[Any], **__: Any) -> None:  # noqa: ARG001 - mode's signature
        await owner.on_revoked()

    async def assigned(_app: object, /, *given: Any, signal: BaseSignalT[Any], **__: Any) -> None:  # noqa: ARG001 - likewise
        await owner.on_assigned(given[0])

    app.on_partitions_assigned.connect(assigned, weak=False)
    app.agent(topic, name="fold")(fold)
    app.on_partitions_revoked.connect(revoked, weak=False)


async def _life_of(app: WorkerApp) -> None:
    """Start Faust and return when it has stopped or crashed."""
    await app.start()
    await app.wait_until_stopped()
    if app.crash_reason is not None:
        raise app.crash_reason


async def _first_end(tasks: dict[asyncio.Task[None], str], stop: asyncio.Event, watchdog: Watchdog) -> int:
    stopping = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Future[Any]] = {*tasks, stopping, watchdog.failed}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task, name in tasks.items():
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            watchdog.report(f"The worker's {name} ended: {error!r}.", error)
    stopping.cancel()
    return EX_SOFTWARE if watchdog.failed.done() else 0


async def _leave(app: WorkerApp) -> None:
    """Commit and leave the group, so that the circuits move at once."""
    log.info("stopping")
    await _bounded(app.stop(), STOP_S, "Faust did not stop")


async def _bounded(work: Awaitable[object], limit_s: float, what: str) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await work
    except TimeoutError:
        log.warning("stop_timeout", what=what, seconds=limit_s)


@asynccontextmanager
async def _started(publisher: Publisher, settings: Settings) -> AsyncIterator[None]:
    try:
        await publisher.start()
    except (TimeoutError, KafkaError) as error:
        raise BrokerUnavailableError(
            f"No Kafka broker answered at {settings.kafka_bootstrap_servers} ({error!r}).",
            hint="Start one (`switchgear up`), or set SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
        ) from error
    try:
        yield
    finally:
        await publisher.stop()


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _backstop(code: int) -> None:
    """End the process even where something hangs while it closes: a stop in the middle of a rebalance ignores its cancellation."""
    timer = threading.Timer(STOP_S + FLUSH_S, _exit, args=(code,))
    timer.daemon = True
    timer.start()


def _exit(code: int) -> NoReturn:
    """Leave without waiting for Faust's threads: everything that must be on the broker is."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
