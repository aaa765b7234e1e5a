"""``switchgear doctor``: check each part of a running system, and say what to do."""

from __future__ import annotations

import json as json_module
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.discovery import API, KAFKA, find_system
from switchgear_cli.doctor.checks import Check, Finding, as_json, as_table, run_checks, worst
from switchgear_cli.doctor.events import gateway_of
from switchgear_cli.doctor.kafka import KafkaChecks
from switchgear_cli.doctor.permissions import Role
from switchgear_cli.doctor.servers import ServerChecks, workers_of
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads import output
from switchgear_schemas.errors import SettingsError


async def doctor(
    *,
    role: Role = "operator",
    worker_url: Annotated[Sequence[str], Parameter(negative=())] = (),
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 10,  # noqa: ASYNC109 - of each check
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Check brokers, topics, permissions, clocks, workers, sinks, alerts, ClickHouse, the API and stored calls, and say what to do.

    All checks run, each with a time limit, whatever the others find. Nothing is changed.
    Exit codes: 0 nothing failed (there may be warnings), 1 a check failed.

    Args:
        role: Whose permissions the Kafka user needs: operator, service, worker, sink or alerts.
        worker_url: Where a worker's /readyz is, such as http://worker-1:8621. May be given several times.
        timeout: Longest time of each check, in seconds.
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    options = {"kafka_bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix, "api_url": api_url}
    with _warnings() as warnings:
        try:
            system = find_system(use=(KAFKA, API), **options)
        except SettingsError as error:
            wrong = Finding("fail", error.message, error.hint or "Correct it: nothing else can be checked before.")
            checks = [Check("settings", lambda: _known(wrong))]
        else:
            configure_client_logging(system.settings)
            workers, gateway = workers_of(system, worker_url), gateway_of(system)
            of_kafka = KafkaChecks(system.settings, role, timeout).checks()
            checks = ServerChecks(system.settings, warnings, workers, timeout, gateway).checks(of_kafka)
    results = await run_checks(checks, timeout)
    if json:
        print(json_module.dumps(as_json(results), ensure_ascii=False, indent=2))
    else:
        output.show(as_table(results))
    return int(worst([each.finding for each in results]) == "fail")


async def _known(finding: Finding) -> Finding:
    return finding


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what loading the settings warns about, instead of logging it."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("switchgear.settings")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
