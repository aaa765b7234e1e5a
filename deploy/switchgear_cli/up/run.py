"""Run the whole system on this machine: ``switchgear up``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console

from switchgear_cli.local.jars import KAFKA_VERSION, jars_folder
from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.ports import port_of
from switchgear_cli.topics import ensure_topics
from switchgear_cli.up.plan import UpPlan, UpRequest, make_plan
from switchgear_cli.up.ports import HeldPorts, held_ports
from switchgear_cli.up.supervisor import CommandComponent, KafkaComponent, Supervisor
from switchgear_cli.up.view import ComponentStatus, Readings, UpStatus, View, api_client, make_view, read
from switchgear_cli.up_record import LOCK_NAME, UpRecord
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.file_lock import FileLock

_Result = TypeVar("_Result")


async def in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Run ``work`` in a daemon thread.

    Unlike ``asyncio.to_thread``, it doesn't keep the process from ending when ``work`` hangs.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def settle(settler: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so the result is not needed
            loop.call_soon_threadsafe(lambda: None if future.done() else settler())

    def target() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            failed = error
            settle(lambda: future.set_exception(failed))
        else:
            settle(lambda: future.set_result(result))

    threading.Thread(target=target, daemon=True, name=getattr(work, "__name__", "work")).start()
    return await future


READY_TIMEOUT_S: Final = 90.0
CHILDREN_STOP_S: Final = 8.0
KAFKA_STOP_S: Final = 8.0
_READ_EVERY_S: Final = 2.0
_DRAW_EVERY_S: Final = 0.25


async def run_up(request: UpRequest, console: Console) -> None:
    """Run the system of ``request`` until SIGINT, SIGTERM or SIGHUP. Leave no process behind.

    Raises:
        SwitchgearError: The request is wrong, the data folder is in use or cannot be written, a named port is in use, or a component
            did not become ready.
    """
    request.check()
    data_dir = request.data_dir
    lock = FileLock(data_dir / LOCK_NAME)
    try:
        acquired = lock.acquire(0.5)
    except OSError as error:
        raise SwitchgearError(
            f"The data cannot be kept in {data_dir}: {error.strerror or error}.",
            hint="Choose another folder by --data-dir.",
        ) from error
    if not acquired:
        raise SwitchgearError(_in_use(data_dir, lock.holder()))
    try:
        UpRecord.remove(data_dir)
        alerts = request.settings.alerts_file is not None
        with held_ports(request.ports, workers=request.workers, alerts=alerts) as ports:
            await _RunningSystem(make_plan(request, ports), ports, make_view(console)).live()
    finally:
        UpRecord.remove(data_dir)
        lock.release()


def _in_use(data_dir: Path, holder: int | None) -> str:
    record = UpRecord.running(data_dir)
    where = f"; its API is at {record.api_url}" if record is not None else ""
    return (
        f"`switchgear up` already runs on {data_dir} (process {holder}){where}."
        " Use that one, stop it, or choose another folder by --data-dir."
    )


class _RunningSystem:
    """One run of the system."""

    def __init__(self, plan: UpPlan, ports: HeldPorts, view: View) -> None:
        self._plan = plan
        self._ports = ports
        self._view = view
        self._supervisor = Supervisor(notify=lambda _: self._show())
        self._readings = Readings()
        self._ready_s: float | None = None
        self._doing = "Starting …"
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._started_at = time.time()
        self._recorded: dict[str, int] | None = None

    async def live(self) -> None:
        """Start the components, run until a signal comes, and end them."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, self._on_signal)
        self._view.start()
        tasks: list[asyncio.Task[None]] = []
        try:
            tasks = [self._task(self._supervisor.run()), self._task(self._draw())]
            await self._until_stop(self._start(), *tasks)
            if not self._stop.is_set():
                tasks.append(self._task(self._read()))
                await self._until_stop(self._stop.wait(), *tasks)
        finally:
            await self._end(tasks)
            self._view.stop()
            for number in signals:
                loop.remove_signal_handler(number)
        self._view.say("Stopped; the data are kept.")

    async def _start(self) -> None:
        plan, began = self._plan, time.monotonic()
        kafka = LocalKafka(plan.data_dir / "kafka", plan.kafka_port, log_file=plan.logs / "kafka.log")
        if not jars_folder().is_dir():
            self._view.say(f"Fetching Kafka {KAFKA_VERSION} (41 MB, this once) …")
        self._doing = "Preparing Kafka …"
        await in_daemon_thread(kafka.prepare)
        self._doing = "Starting …"
        self._supervisor.start(KafkaComponent(kafka))
        await self._supervisor.wait_ready(["kafka"], READY_TIMEOUT_S)
        for report in await ensure_topics(plan.system_settings()):
            if report.status == "differs":
                self._view.say(f"Topic {report.name} differs from the settings; see `switchgear topics ensure`.")
        for component in self._children():
            self._supervisor.start(component)
        names = [supervised.component.name for supervised in self._supervisor.all]
        await self._supervisor.wait_ready(names, READY_TIMEOUT_S)
        self._ready_s = time.monotonic() - began
        self._doing = ""
        self._record()
        self._view.say(
            f"ready in {self._ready_s:.1f} s: API {plan.api_url}, gateway {plan.gateway_url}, OTLP {plan.otlp_grpc}, "
            f"Kafka {plan.bootstrap}, data {plan.data_dir}"
        )
        self._view.say("For your own processes, and for commands where several systems run:")
        for line in self._found_at({}).exports():
            self._view.say(line)
        if plan.demo:
            self._supervisor.start(self._child("demo", ["demo"]))
            self._view.say('Demo traffic: services named demo-…, metadata {"demo": true}; --no-demo leaves it out.')

    def _children(self) -> list[CommandComponent]:
        ports = self._ports
        # With the instance id of before, a restarted process goes on at once; a new one waits until its predecessor's session ends.
        found = [
            self._child(f"worker-{number}", ["worker", "--instance-id", f"worker-{number}"], held, port_of(held))
            for number, held in enumerate(ports.workers, 1)
        ]
        found.append(self._child("sink", self._plan.sink_arguments, ports.api))
        found.append(self._child("gateway", ["gateway"], ports.gateway))
        if ports.alerts is not None:
            found.append(self._child("alerts", ["alerts", "run", "--instance-id", "up"], ports.alerts))
        return found

    def _child(
        self,
        name: str,
        arguments: list[str],
        listening: socket.socket | None = None,
        worker_port: int | None = None,
    ) -> CommandComponent:
        return CommandComponent(
            name,
            arguments,
            log_file=self._plan.logs / f"{name}.log",
            environment=self._plan.environment(os.environ, worker_port=worker_port),
            listening=listening,
        )

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        self._doing = "Stopping …"
        self._show()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        names = [supervised.component.name for supervised in self._supervisor.all]
        # Traffic ends first, then what reads it, and the broker last. So each can still send what it holds.
        traffic = [name for name in names if name in {"demo", "gateway"}]
        await self._supervisor.stop(traffic, CHILDREN_STOP_S, self._hurry)
        self._ports.gateway.close()  # its clients must not wait for a gateway that never comes
        await self._supervisor.stop(
            [name for name in names if name not in {*traffic, "kafka"}], CHILDREN_STOP_S, self._hurry
        )
        self._ports.api.close()
        await self._supervisor.stop([name for name in names if name == "kafka"], KAFKA_STOP_S, self._hurry)

    async def _draw(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(_DRAW_EVERY_S)

    async def _read(self) -> None:
        async with api_client(self._plan.token) as client:
            while True:
                self._readings = await read(client, self._plan.api_url, self._readings)
                try:
                    self._record()
                except OSError as error:  # a full disk must not end the system
                    self._readings = replace(self._readings, problem=f"up.json cannot be written: {error.strerror}.")
                await asyncio.sleep(_READ_EVERY_S)

    def _show(self) -> None:
        plan = self._plan
        self._view.show(
            UpStatus(
                api_url=plan.api_url,
                gateway_url=plan.gateway_url,
                bootstrap=plan.bootstrap,
                data_dir=str(plan.data_dir),
                demo=plan.demo,
                components=tuple(map(ComponentStatus.of, self._supervisor.all)),
                readings=self._readings,
                ready_s=self._ready_s,
                doing=self._doing,
            )
        )

    def _record(self) -> None:
        """Write the records where they are out of date: process ids change when a component restarts."""
        data_dir = self._plan.data_dir
        try:
            UpRecord.announce(data_dir)
        except OSError as error:  # commands find this system by the lines to export
            if self._recorded is None:
                self._view.say(f"Commands can't find this system by themselves: {error.strerror}: {error.filename}.")
        pids = {s.component.name: pid for s in self._supervisor.all if (pid := s.component.pid) is not None}
        if pids != self._recorded:
            self._found_at(pids).write(data_dir)
            self._recorded = pids

    def _found_at(self, pids: dict[str, int]) -> UpRecord:
        return UpRecord(
            pid=os.getpid(),
            data_dir=str(self._plan.data_dir).encode(errors="replace").decode(),
            kafka_bootstrap_servers=self._plan.bootstrap,
            api_url=self._plan.api_url,
            gateway_url=self._plan.gateway_url,
            worker_urls=self._plan.worker_urls,
            alerts_url=self._plan.alerts_url,
            topic_prefix=self._plan.settings.topic_prefix,
            family_pattern=self._plan.settings.family_pattern,
            started_at=self._started_at,
            pids=pids,
        )

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._hurry.set()  # the second Ctrl-C ends everything at once
        self._stop.set()

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    async def _until_stop(self, work: Coroutine[Any, Any, Any], *owned: asyncio.Task[None]) -> None:
        """Do ``work`` until it is done or a signal comes. Raise its error, or that of a background task."""
        main, stopped = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait({main, stopped, *owned}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (main, stopped):
                task.cancel()
            await asyncio.gather(main, stopped, return_exceptions=True)
