"""``switchgear topics``: the Kafka topics as the settings want them."""

from __future__ import annotations

import dataclasses
import json as json_module
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.topic_difference import TopicReport
from switchgear_cli.topics import ensure_topics

topics = App(name="topics", help="Create the Kafka topics and report those that differ.")


@topics.command
async def ensure(
    *,
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
    partitions: int | None = None,
    replication_factor: int | None = None,
    timeout: float = 20.0,  # noqa: ASYNC109 - an option of the command line, handed to the call that limits itself
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Create the topics that are missing; report, without touching them, those that exist and differ.

    A topic that differs may be meant so (more partitions, a longer retention): it is reported, and the exit code is 0.

    Args:
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
        partitions: Partitions of a topic that is created.
        replication_factor: Replicas of a topic that is created.
        timeout: Seconds to wait for a broker.
        json: One JSON array instead of a table.
    """
    settings = client_settings(
        kafka_bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        topic_partitions=partitions,
        topic_replication_factor=replication_factor,
    )
    configure_client_logging(settings)
    reports = await ensure_topics(settings, timeout_s=timeout)
    if json:
        print(json_module.dumps([dataclasses.asdict(report) for report in reports]))
    else:
        Console(soft_wrap=True, emoji=False).print(_table(reports))
    return 0


def _table(reports: list[TopicReport]) -> Table:
    table = Table("topic", "status", "difference", "wanted", "found", box=None, header_style="bold")
    colours = {"created": "green", "ok": "default", "differs": "yellow"}
    for report in reports:
        status = f"[{colours[report.status]}]{report.status}[/]"
        first, *others = report.differences or (None,)
        table.add_row(
            report.name, status, *((first.name, first.wanted, first.found) if first is not None else ("", "", ""))
        )
        for other in others:
            if other is not None:
                table.add_row("", "", other.name, other.wanted, other.found)
    return table
