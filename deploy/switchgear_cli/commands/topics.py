"""``switchgear topics``: create and compare the Kafka topics."""

from __future__ import annotations

import dataclasses
import json as json_module
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.text import Text

from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads import output
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, name
from switchgear_cli.topics import TopicReport, ensure_topics

topics = App(name="topics", help="Create the Kafka topics and report those that differ.")


@topics.command
async def ensure(
    *,
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
    partitions: int | None = None,
    replication_factor: int | None = None,
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 20.0,  # noqa: ASYNC109 - an option of the command line, handed to the call that limits itself
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Create the topics that are missing; report those that differ from the settings, and leave them unchanged.

    A topic may differ on purpose (more partitions, a longer retention), so the exit code is 0.

    Args:
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
        partitions: Partitions of a topic that is created.
        replication_factor: Replicas of a topic that is created.
        timeout: Longest wait for a broker, in seconds.
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
        output.show(_table(reports))
        print(f"Kafka: {settings.kafka_bootstrap_servers}")
    return 0


def _table(reports: list[TopicReport]) -> ResponsiveTable:
    table = ResponsiveTable(name("topic"), Column("status"), Column("difference"), name("wanted"), name("found"))
    colours = {"created": "green", "differs": "yellow"}
    for report in reports:
        status = Text(report.status, style=colours.get(report.status, ""))
        if not report.differences:
            table.add(report.name, status, "", "", "")
        for each in report.differences:
            table.add(report.name, status, each.name, each.wanted, each.found)
    return table
