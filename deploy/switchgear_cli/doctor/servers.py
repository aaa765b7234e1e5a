"""The checks beside Kafka: settings and their files, the HTTP API, the workers' own answers, and ClickHouse."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from switchgear.policies import PolicySet
from switchgear_cli.discovery import System
from switchgear_cli.doctor.checks import Check, Finding, SkippedError, joined
from switchgear_cli.doctor.events import events_finding
from switchgear_cli.doctor.kafka import clock_finding
from switchgear_cli.doctor.targets import targets_finding
from switchgear_cli.reads.client import ApiAnswerError, ApiClient
from switchgear_cli.up_record import UpRecord
from switchgear_http.authenticator import Authenticator
from switchgear_http.listening import tls_options
from switchgear_schemas.files import trusted_at
from switchgear_schemas.settings import CONFIG_VARIABLE, Settings

API: Final = "API"
_MOST_NAMED: Final = 5
_CALLED_WITHIN_H: Final = 24
_LACKING: Final = """
SELECT topic, sum(offsets) FROM
(
    SELECT topic, partition, max(readable) AS offsets FROM sink_history
    GROUP BY consumer_group, topic, partition HAVING countIf(lacks_before = 0) = 0
)
GROUP BY topic ORDER BY topic
"""
"""How many offsets of each topic the store lacks, that Kafka had when the sink noted it."""
_ANYWHERE: Final = {"0.0.0.0", "::", "[::]"}  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Workers:
    """Where the workers of a system are.

    Attributes:
        urls: Their addresses; empty if none is known.
        todo: What to do about one that doesn't answer. Empty: the address is a guess, and nothing is wrong.
    """

    urls: Sequence[str]
    todo: str = ""


def workers_of(system: System, named: Sequence[str] = ()) -> Workers:
    """Return the workers that the user named, or those of the ``up`` that was found, or the address of the settings.

    A worker of another ``up`` on this machine is not one of this system's.
    """
    if named:
        return Workers(named, "Start it, or correct --worker-url.")
    if system.up is not None and system.up.worker_urls:
        return Workers(system.up.worker_urls, f"Look at its log in {Path(system.up.data_dir) / 'logs'}.")
    guess = _own_worker(system.settings)
    others = {url for each in UpRecord.all_running(system.settings.data_dir) for url in each.worker_urls}
    return Workers([] if guess in others else [guess])


@dataclass(frozen=True, slots=True)
class ServerChecks:
    """The checks of the settings and of everything that is not Kafka.

    Attributes:
        settings: As loaded.
        warnings: What loading them warned about.
        workers: The workers of the system.
        limit_s: The longest time of each check, in seconds.
        gateway_url: Where the gateway is. Empty if that isn't known.
    """

    settings: Settings
    warnings: Sequence[str]
    workers: Workers
    limit_s: float
    gateway_url: str = ""

    def checks(self, of_kafka: Sequence[Check] = ()) -> list[Check]:
        """Return the checks, in the order in which to show them. Those of Kafka follow those of this machine."""
        return [
            Check("settings", self.loaded),
            Check("files", self.files),
            *of_kafka,
            Check(API, self.api),
            Check("events", self.events, API),
            Check("emitters' clocks", self.emitters, API),
            Check("targets", self.targets, needs=API),
            Check("stored history", self.history, needs=API),
            Check("worker's health", self.worker),
            Check("ClickHouse", self.clickhouse),
        ]

    async def loaded(self) -> Finding:
        """Report what was wrong with the settings, without being an error."""
        source = os.environ.get(CONFIG_VARIABLE) or "no file"
        if self.warnings:
            return Finding("warn", " ".join(self.warnings), "Correct or unset them.")
        return Finding("ok", f"{len(self.settings.model_fields_set)} settings are given ({CONFIG_VARIABLE}: {source}).")

    async def files(self) -> Finding:
        """Read each file that the settings name, as the process that uses it does."""
        settings = self.settings
        used: dict[str, Callable[[], object]] = {
            "policy_file": lambda: PolicySet.load(settings.policy_file),
            "alerts_file": lambda: _read_alerts(settings.alerts_file),
            "access_tokens_file": lambda: Authenticator.of(settings),
            "tls_certfile": lambda: tls_options(settings),
            "kafka_ssl_cafile": lambda: settings.kafka,
        }
        named = [name for name in used if getattr(settings, name) is not None]
        for name in named:
            await asyncio.to_thread(used[name])  # raises what its process would raise
        listed = ", ".join(f"{name} {getattr(settings, name)}" for name in named)
        return Finding("ok", f"Readable: {listed}." if named else "The settings name no files.")

    async def api(self) -> Finding:
        """Ask the HTTP API whether it is ready, and read the circuits with the token of the settings."""
        return await asyncio.to_thread(self._api)

    def _api(self) -> Finding:
        with self._client() as api:
            readiness = api.readiness()
            bad = [name for name, fine in readiness.get("checks", {}).items() if not fine]
            if readiness.get("status") != "ready":
                todo = "Look at the log of the sink and of the API."
                return Finding("fail", f"{api.url} is not ready: {', '.join(bad) or 'no reason given'}.", todo)
            count = len(api.circuits()["circuits"])
            return Finding("ok", f"{api.url} is ready, and shows {count} circuits.")

    def _client(self) -> ApiClient:
        """Return a client for one check. Its requests share the check's time."""
        return ApiClient.of(self.settings, total_s=self.limit_s)

    async def events(self) -> Finding:
        """Look whether calls were stored lately, and if not, why."""
        return await asyncio.to_thread(events_finding, self.settings, self.gateway_url, self.limit_s)

    async def emitters(self) -> Finding:
        """Ask the API which processes have a wrong clock."""
        return await asyncio.to_thread(self._emitters)

    def _emitters(self) -> Finding:
        with self._client() as api:
            try:
                return emitters_finding(api.emitters()["emitters"])
            except ApiAnswerError as error:
                if error.status in {403, 404}:  # a token of some tools, or an older API
                    raise SkippedError(error.message) from None
                raise

    async def targets(self) -> Finding:
        """Look for tools that read pages with one circuit for all sites."""
        return await asyncio.to_thread(self._targets)

    def _targets(self) -> Finding:
        policies = PolicySet.load(self.settings.policy_file)
        with self._client() as api:
            called = [str(each["tool_name"]) for each in api.tools(hours=_CALLED_WITHIN_H)["tool_reports"]]
            split = [each["tool_name"] for each in api.circuits()["circuits"] if each["scope"] == "target"]
        return targets_finding(called, policies, split)

    async def history(self) -> Finding:
        """Look whether sinks have read events that this store lacks."""
        if self.settings.embedded:
            return await asyncio.to_thread(self._history)
        from switchgear_sinks import migrations  # noqa: PLC0415 - ClickHouse's client takes half a second to import
        from switchgear_sinks.store import open_store  # noqa: PLC0415 - as above

        async with await open_store(self._patient(), create=False) as store:
            if not store.database_exists or await migrations.pending(store):
                raise SkippedError("The tables are not those of this version: see ClickHouse.")
            return history_finding((await store.query(_LACKING)).result_rows)

    def _history(self) -> Finding:
        with self._client() as api:
            try:
                return history_finding(api.sql(_LACKING)["rows"])
            except ApiAnswerError as error:  # SQL is off, the token may not use it, or an older sink runs
                raise SkippedError(error.message) from None

    async def worker(self) -> Finding:
        """Ask the workers for their health."""
        urls = self.workers.urls
        if not urls:
            raise SkippedError("The addresses of this system's workers are not known.", hint="Give --worker-url.")
        return joined(
            await asyncio.gather(*(self._worker(url.rstrip("/")) for url in urls)), f"Ready: {', '.join(urls)}."
        )

    async def _worker(self, url: str) -> Finding:
        limit_s = self.limit_s / 3
        try:
            async with httpx.AsyncClient(timeout=limit_s, trust_env=False, verify=trusted_at(url, None)) as client:
                healthy, ready = [_answer(await client.get(f"{url}/{route}")) for route in ("healthz", "readyz")]
        except httpx.HTTPError as error:
            said = f"No worker answers at {url} ({type(error).__name__})."
            if self.workers.todo:
                return Finding("fail", said, self.workers.todo)
            return Finding("skip", f"{said} Give --worker-url if workers run elsewhere.")
        if "partitions" not in ready:
            return Finding("fail", f"What answers at {url} is not a worker.", "Correct --worker-url.")
        if healthy.get("problem"):
            return Finding("fail", f"The worker at {url} is unhealthy: {healthy['problem']}", "Restart the worker.")
        status = ready.get("status")
        if status != "ready":
            return Finding("warn", f"The worker at {url} is not ready: it is {status}.", "Try again in a few seconds.")
        seen = f"The worker at {url} is ready, with {len(ready.get('partitions', []))} partitions."
        notice = healthy.get("notice")
        return Finding("warn", f"{seen} It says: {notice}") if notice else Finding("ok", seen)

    def _patient(self) -> Settings:
        return self.settings.model_copy(update={"clickhouse_connect_timeout_s": self.limit_s / 2})

    async def clickhouse(self) -> Finding:
        """Connect to ClickHouse, and compare its tables and its clock with this version and this machine."""
        if self.settings.embedded:
            return Finding("skip", f"The engine is part of the sink, and only the sink can open it: see {API}.")
        from switchgear_sinks import migrations  # noqa: PLC0415 - ClickHouse's client takes half a second to import
        from switchgear_sinks.store import open_store  # noqa: PLC0415 - as above

        async with await open_store(self._patient(), create=False) as store:
            where = f"ClickHouse {store.server_version} at {store.location}"
            if not store.database_exists:
                return Finding("fail", f"{where} has no database {store.database}.", "switchgear migrate")
            missing = await migrations.pending(store)
            asked = time.time()
            now = (await store.query("SELECT toFloat64(now64(6))")).result_rows[0][0]
        clock = clock_finding("ClickHouse's clock", (asked + time.time()) / 2 - now, self.settings.late_after_s)
        tables = Finding("ok", "")
        if missing:
            todo = "switchgear migrate (each sink does the same when it starts)"
            tables = Finding("warn", f"{where} lacks {len(missing)} of this version's migrations.", todo)
        return joined([tables, clock], f"{where} has the tables of this version.")


def history_finding(lacking: Sequence[Sequence[Any]]) -> Finding:
    """Return what it means that a store lacks offsets, by topic. It is a failure: nobody finds these events otherwise."""
    if not lacking:
        return Finding("ok", "The store lacks nothing that sinks have read.")
    listed = ", ".join(f"{int(count):,} of {topic}" for topic, count in lacking)
    seen = f"The store was lost, or is another one than before. It lacks events that sinks have read: {listed}."
    return Finding(
        "fail", seen, "Stop the sinks, and start each once with: switchgear sink --rewind (or switchgear up --rewind)"
    )


def emitters_finding(emitters: Sequence[Mapping[str, Any]]) -> Finding:
    """Return what the wrong clocks of processes mean. It is a failure if no circuit counts the calls of one."""
    if not emitters:
        return Finding("ok", "No process has a wrong clock.")
    seen = [
        f"{each['emitter_id'] or 'A process without emitter_id'}: {each['text']}." for each in emitters[:_MOST_NAMED]
    ]
    if len(emitters) > _MOST_NAMED:
        seen.append(f"And {len(emitters) - _MOST_NAMED} more.")
    todo = dict.fromkeys(each["todo"] for each in emitters)
    counted = all(each["counted"] for each in emitters)
    return Finding("warn" if counted else "fail", " ".join(seen), "\n".join(todo))


def _read_alerts(file: Path | None) -> None:
    from switchgear_alerts.config import load  # noqa: PLC0415 - an extra

    assert file is not None
    load(file)


def _own_worker(settings: Settings) -> str:
    host, _, port = settings.worker_http.rpartition(":")
    return f"http://{'127.0.0.1' if host in _ANYWHERE else host}:{port}"


def _answer(response: httpx.Response) -> dict[str, Any]:
    try:
        content = response.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
