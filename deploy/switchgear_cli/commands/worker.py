"""``switchgear worker``: fold the fleet's executions into circuits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.logs import configure_logging
from switchgear_schemas.settings import load_settings


def worker(
    *,
    bootstrap_servers: Annotated[str | None, Parameter(help="Kafka brokers, host:port, comma-separated.")] = None,
    topic_prefix: Annotated[str | None, Parameter(help="Before every topic name.")] = None,
    http: Annotated[
        str | None, Parameter(help="host:port of /healthz, /readyz and /metrics; port 0: any free one.")
    ] = None,
    policy_file: Annotated[Path | None, Parameter(help="Policy file, TOML or YAML.")] = None,
    late_after_s: Annotated[
        float | None, Parameter(help="An event that arrives this long after it was recorded is stored, not counted.")
    ] = None,
    session_timeout_s: Annotated[float | None, Parameter(help="A dead worker's circuits move after this.")] = None,
    instance_id: Annotated[
        str | None,
        Parameter(help="Stable name of this worker: restarted under it, it keeps its circuits without a rebalance."),
    ] = None,
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, Parameter(help="console or json.")] = None,
) -> None:
    """Run a stream worker until SIGTERM or Ctrl-C.

    It needs Kafka and the topics (`switchgear topics ensure`). Start as many as you like: they share the tools by partition.
    Workers beyond the number of partitions are spares. Everything else is in the settings (SWITCHGEAR_*).
    Exit codes: 0 stopped, 1 could not start, 70 failed while running.
    """
    from switchgear_stream.logs import quiet_libraries  # noqa: PLC0415 - beside the next import
    from switchgear_stream.worker import run_worker  # noqa: PLC0415 - Faust takes half a second to import

    settings = load_settings(
        kafka_bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        worker_http=http,
        policy_file=policy_file,
        late_after_s=late_after_s,
        worker_session_timeout_s=session_timeout_s,
        log_level=log_level,
        log_format=log_format,
    )
    configure_logging(
        settings,
        without_kafka="The worker keeps its circuits and goes on when Kafka answers. Until then no circuit changes.",
    )
    quiet_libraries()
    run_worker(settings, instance_id=instance_id)
