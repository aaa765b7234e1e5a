"""``switchgear emit``: send executions from a file of JSON lines."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from switchgear.emitter.emitter import Emitter
from switchgear_api.replay.history import read_history
from switchgear_cli.discovery import client_settings
from switchgear_cli.emit.recording import rereadable
from switchgear_cli.emit.run import EmitPlan, emit_lines
from switchgear_cli.emit.sending import ChunkSender, Tally
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads.formats import plain
from switchgear_cli.terminal import terminal_console
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.settings import Settings, load_settings

INTERRUPTED: Final = 130


def _known_option(_type: object, value: str) -> None:
    """Refuse a mistyped option. A single hyphen is standard input."""
    if value.startswith("-") and value != "-":
        raise ValueError(f"Unknown option: {value}.")


def emit(
    file: Annotated[str, Parameter(allow_leading_hyphen=True, validator=_known_option)],
    /,
    *,
    restamp: Annotated[bool, Parameter(negative=())] = False,
    speed: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    service: str | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 15.0,
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
) -> int:
    """Send recorded calls to Kafka, one JSON object per line.

    A line that is not an execution is reported with its number and reason, and the others are sent. Unknown fields are kept;
    a missing metric_id or recorded_at is filled in; secrets in error messages are removed. The exit code is 0 when
    every line was acknowledged.

    Args:
        file: The file, plain or gzipped; - for standard input.
        restamp: Shift the clock so that the last call is now.
        speed: Pace by the recorded clock: 1 is real time, 60 is a minute per second. Unpaced by default.
        service: Service name to write on every call.
        dry_run: Check every line, send nothing.
        timeout: Longest wait for Kafka to be reached, and for its next acknowledgement, in seconds.
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
    """
    # a dry run uses no system, so it must not ask which one
    settings = (load_settings if dry_run else client_settings)(
        kafka_bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix
    )
    configure_client_logging(settings)
    logging.getLogger("switchgear.emitter").setLevel(logging.CRITICAL)  # the summary reports what this logger would
    console = terminal_console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    say = partial(_say, console)
    tally = Tally()
    emitter: Emitter | None = None
    began = time.monotonic()
    failure: SwitchgearError | None = None
    interrupted = False
    sending: ChunkSender | None = None
    try:
        if not dry_run:
            emitter = _connect(settings, timeout, file)
            sending = ChunkSender(emitter, tally, stall_s=timeout)
        with rereadable(file) if restamp else _as_it_is(file) as source, _progress(console) as progress:
            task = progress.add_task("emit", total=None)
            plan = EmitPlan(source, restamp, speed, service, settings.late_after_s)
            began = time.monotonic()
            emit_lines(
                plan,
                tally,
                sending,
                complain=say,
                advance=lambda lines: progress.advance(task, lines),
            )
    except SwitchgearError as error:
        failure = error
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.monotonic() - began
    if emitter is not None:
        emitter.close(0.5 if failure is not None else 10.0)
    shown_file = "FILE" if file == "-" else shlex.quote(file)
    for remark in tally.remarks(settings.late_after_s, file=shown_file, restamped_at_once=restamp and speed is None):
        say(remark)
    for reason in [] if sending is None else sending.reasons:
        say(f"refused by Kafka: {reason}")
    if tally.lines:
        where = "" if dry_run else f" Topic: {settings.topics.executions} at {settings.kafka_bootstrap_servers}."
        print(tally.summary(seconds, dry_run=dry_run) + where)
    sys.stdout.flush()
    if failure is not None:
        raise failure
    if interrupted:
        console.print("interrupted: the rest of the file was not read.")
        return INTERRUPTED
    return 0 if (tally.refused == 0 if dry_run else tally.complete) else 1


def _say(console: Console, remark: str) -> None:
    console.print(plain(remark))


def _connect(settings: Settings, timeout: float, file: str) -> Emitter:
    if file != "-":
        next(read_history(file), None)  # report a wrong path before connecting to Kafka
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, exit_timeout=0.0)
    if not emitter.connect(timeout):
        why = emitter.status().last_error
        emitter.close(0.0)
        raise BrokerUnavailableError(
            f"No Kafka broker at {settings.kafka_bootstrap_servers} was ready within {timeout:g} s, nothing was sent"
            + (f" ({why.partition(': ')[2].rstrip('.')})." if why else "."),
            hint="Start one with `switchgear up`, or give --bootstrap-servers.",
        )
    return emitter


@contextmanager
def _as_it_is(file: str) -> Iterator[str]:
    yield file


def _progress(console: Console) -> Progress:
    """Return a progress bar. It shows on a terminal only."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} lines"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
