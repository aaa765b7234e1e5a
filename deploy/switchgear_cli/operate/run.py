"""From a command line to a command, its answer printed."""

from __future__ import annotations

import asyncio
import json as json_module
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import ValidationError

from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.operate.actor import this_person
from switchgear_cli.operate.duration import parse_duration
from switchgear_cli.usage import WrongUsageError
from switchgear_schemas.command import Command, Verb

NOT_CONFIRMED: Final = 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """What every operator command takes.

    Args:
        reason: Why, for the record and for those whose calls it refuses.
        actor: Who commands it; user@host where it is not given.
        wait: Wait for the record that shows it.
        timeout: Longest wait, in seconds.
        json: One JSON object instead of a sentence.
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
    """

    reason: str = ""
    actor: str | None = None
    wait: bool = True
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 10.0
    json: Annotated[bool, Parameter(negative=())] = False
    bootstrap_servers: str | None = None
    topic_prefix: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Which of a tool's circuits: all of them, and those to come, where none is named.

    Args:
        circuit: Only the circuit of this id.
        user: Only the circuit of this user.
        session: Only the circuit of this session.
    """

    circuit: str | None = None
    user: str | None = None
    session: str | None = None

    def of(self, tool: str) -> dict[str, str]:
        """The circuit named, as a field of the command.

        Raises:
            WrongUsageError: more than one is.
        """
        scoped = {"user": self.user, "session": self.session}
        named = [f"{tool}|{scope}={whose}" for scope, whose in scoped.items() if whose is not None]
        if self.circuit is not None:
            named.append(self.circuit)
        if len(named) > 1:
            raise WrongUsageError("--circuit, --user and --session name one circuit each.", hint="Give one of them.")
        return {"circuit_id": named[0]} if named else {}


def operate(verb: Verb, tool: str, how: How, *, duration: str | None = None, **fields: Any) -> int:
    """Send one command and print what became of it.

    Returns:
        The exit code: 0 applied (or sent, where nobody waits), 1 not confirmed or refused, with the reason.

    Raises:
        WrongUsageError: the command can't be one.
        BrokerUnavailableError: no broker took it.
    """
    if duration is not None:
        fields["until"] = datetime.now(UTC) + parse_duration(duration)
    try:
        command = Command(tool_name=tool, verb=verb, actor=how.actor or this_person(), reason=how.reason, **fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise WrongUsageError(f"{where}: {said}." if where else f"{said}.") from None
    settings = client_settings(kafka_bootstrap_servers=how.bootstrap_servers, topic_prefix=how.topic_prefix)
    configure_client_logging(settings)
    from switchgear_cli.operate.give import give  # noqa: PLC0415 - imports aiokafka, 100 ms that `--help` must not

    given = asyncio.run(give(settings, command, wait_s=how.timeout if how.wait else None))
    if how.json:
        print(json_module.dumps(given.document()))
    else:
        print(given.sentence(), file=sys.stdout if given.done else sys.stderr)
    return 0 if given.done else NOT_CONFIRMED
