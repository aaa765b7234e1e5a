"""``switchgear alerts``: send, try and check alerts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from switchgear_cli.logs import configure_client_logging, configure_logging
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.settings import Settings, load_settings
from switchgear_schemas.topics import alerts_topic

if TYPE_CHECKING:
    from switchgear_alerts.config import AlertsFile
    from switchgear_alerts.routes import Route

alerts = App(name="alerts", help="Send alerts when circuits open and close.")


@alerts.default
@alerts.command
async def run(
    *,
    file: Annotated[Path | None, Parameter(help="Receivers and routes, TOML.")] = None,
    bootstrap_servers: Annotated[str | None, Parameter(help="Kafka brokers, host:port, comma-separated.")] = None,
    topic_prefix: Annotated[str | None, Parameter(help="Before every topic name.")] = None,
    http: Annotated[
        str | None, Parameter(help="host:port of /healthz, /readyz and /metrics; port 0: any free one.")
    ] = None,
    state_dir: Annotated[Path | None, Parameter(help="Folder of the alerts that could not be delivered.")] = None,
    instance_id: Annotated[
        str | None, Parameter(help="Stable name of this process: restarted under it, it goes on without a wait.")
    ] = None,
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, Parameter(help="console or json.")] = None,
) -> None:
    """Send alerts until SIGTERM or Ctrl-C.

    It needs Kafka and the topics (`switchgear topics ensure`), and creates a topic of its own. Of several processes one sends, and the
    others take over when it ends. Exit codes: 0 stopped, 1 could not start.
    """
    from switchgear_alerts.service import load_rules, run_alerts  # noqa: PLC0415 - an extra

    settings = load_settings(
        alerts_file=file,
        kafka_bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        alerts_http=http,
        alerts_state_dir=state_dir,
        log_level=log_level,
        log_format=log_format,
    )
    configure_logging(settings, without_kafka="Changes of circuits are announced when it answers.")
    load_rules(settings)  # a wrong file is an error before Kafka is asked
    wanted = alerts_topic(settings.topics, replication_factor=settings.topic_replication_factor)
    await ensure_topics(settings, wanted=(wanted,), timeout_s=60)
    await run_alerts(settings, instance_id=instance_id)


@alerts.command
def check(file: Path | None = None, /) -> int:
    """Check an alerts file: report what is wrong with it, or print its routes. Nothing is sent.

    Args:
        file: TOML file with receivers and routes. By default the settings' alerts_file.
    """
    from switchgear_alerts.errors import AlertsFileError  # noqa: PLC0415 - an extra
    from switchgear_alerts.receivers import make_receiver  # noqa: PLC0415 - likewise
    from switchgear_alerts.service import context_of  # noqa: PLC0415 - likewise

    settings, rules = _rules(file)
    print(f"{settings.alerts_file}: valid.")
    for name, options in rules.receivers.items():
        try:
            make_receiver(name, options, context_of(settings))
        except AlertsFileError as error:
            remark = f" It can't run here: {error}"
        else:
            remark = ""
        print(f"receiver {name}: {getattr(options, 'type', '')}.{remark}")
    for number, route in enumerate(rules.routes, 1):
        print(f"route {number}: {_described(route)}")
    if rules.digest is not None:
        at = f"{rules.digest.at:%H:%M} {rules.timezone.key}"
        print(f"digest: every day at {at}, to {', '.join(rules.digest.receivers)}")
    return 0


@alerts.command(name="test")
def send_example(
    name: str, /, *, file: Annotated[Path | None, Parameter(help="Receivers and routes, TOML.")] = None
) -> int:
    """Send an example incident to one receiver, opened and then resolved, and print what it answered.

    Args:
        name: Name of the receiver in the file.
        file: TOML file with receivers and routes. By default the settings' alerts_file.
    """
    settings, rules = _rules(file)
    if name not in rules.receivers:
        raise WrongUsageError(
            f"The file has no receiver {name!r}.", hint=f"It has {', '.join(sorted(rules.receivers))}."
        )
    configure_client_logging(settings)
    return asyncio.run(_test(name, rules, settings))


async def _test(name: str, rules: AlertsFile, settings: Settings) -> int:
    from switchgear_alerts.errors import DeliveryError  # noqa: PLC0415 - an extra
    from switchgear_alerts.examples import example_messages  # noqa: PLC0415 - likewise
    from switchgear_alerts.receivers import make_receiver  # noqa: PLC0415 - likewise
    from switchgear_alerts.service import context_of  # noqa: PLC0415 - likewise

    receiver = make_receiver(name, rules.receivers[name], context_of(settings))
    try:
        for message in example_messages(name, time.time()):
            try:
                print(f"{message.kind}: {await receiver.send(message)}")
            except DeliveryError as error:
                raise SwitchgearError(f"{name} did not take the example ({message.kind}): {error.message}.") from None
    finally:
        await receiver.close()
    return 0


def _rules(file: Path | None) -> tuple[Settings, AlertsFile]:
    from switchgear_alerts.service import load_rules  # noqa: PLC0415 - an extra

    settings = load_settings(alerts_file=file)
    return settings, load_rules(settings)


def _described(route: Route) -> str:
    from switchgear_alerts.durations import in_words  # noqa: PLC0415 - an extra

    parts = [f"tools {', '.join(route.tools)}"]
    parts += [f"families {', '.join(route.families)}"] if route.families else []
    parts += [f"{' or '.join(route.states)}", f"severity {route.severity}"]
    parts += [f"after {in_words(route.lasting)}"] if route.lasting else []
    parts += ["with quiet hours"] if route.quiet else []
    return f"{'; '.join(parts)} → {', '.join(route.receivers)}"
