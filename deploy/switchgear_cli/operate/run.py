"""Run an operator command from its options to the printed results."""

from __future__ import annotations

import asyncio
import json as json_module
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import ValidationError

from switchgear.policies.glob import is_glob
from switchgear_cli.discovery import API, KAFKA, client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.times import parse_duration
from switchgear_cli.usage import WrongUsageError
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.families import family_circuit_id
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings
from switchgear_sinks.operate.command_result import CommandOutcome
from switchgear_sinks.operate.send_command import this_person

NOT_DONE: Final = 1
INTERRUPTED: Final = 130


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of every operator command.

    Args:
        reason: Why, for the record and for those whose calls it refuses.
        actor: Who commands it. By default user@host.
        wait: Wait for the record that shows it.
        timeout: Longest wait, in seconds, for all tools together.
        json: One JSON object per line and tool, instead of sentences.
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

    def settings(self, names: NameOptions | None = None) -> Settings:
        """Return the settings and configure logging. With ``names``, the settings include the API's address."""
        found = client_settings(
            use=(KAFKA,) if names is None else (KAFKA, API),
            kafka_bootstrap_servers=self.bootstrap_servers,
            topic_prefix=self.topic_prefix,
            api_url=None if names is None else names.api_url,
        )
        configure_client_logging(found)
        return found

    def over_api(self, settings: Settings) -> bool:
        """Return whether the command goes through the HTTP API, which knows this operator by a token.

        Without a token the API can't tell operators apart, so the command goes to Kafka, with the name of this person. So it does if
        the options name brokers, another actor, or not to wait.
        """
        to_kafka = self.bootstrap_servers or self.topic_prefix or self.actor or not self.wait
        return settings.token is not None and bool(settings.api_url) and not to_kafka

    def command(self, tool: str, verb: Verb, **fields: Any) -> Command:
        """Return one command.

        Raises:
            WrongUsageError: it can't be one.
        """
        try:
            return Command(tool_name=tool, verb=verb, actor=self.actor or this_person(), reason=self.reason, **fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            said = first["msg"].removeprefix("Value error, ")
            raise WrongUsageError(f"{where}: {said}." if where else f"{said}.") from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """The options that say which names are known.

    Args:
        create: Also a name that no circuit, policy or stored call knows: for a tool that will be called later.
        family: The names are those of families, servers such as mcp:github. Change their circuits, not those of their tools.
        api_url: Where the HTTP API is; it knows the tools that calls are stored of.
    """

    create: Annotated[bool, Parameter(negative=())] = False
    family: Annotated[bool, Parameter(negative=())] = False
    api_url: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CircuitOptions(NameOptions):
    """The options that choose circuits. Without them, a command goes to all circuits of a tool, also to new ones.

    Args:
        yes: Don't ask before the tools that a glob matches are changed.
        circuit: Only the circuit of this id.
        user: Only the circuit of this user.
        session: Only the circuit of this session.
    """

    yes: Annotated[bool, Parameter(negative=())] = False
    circuit: str | None = None
    user: str | None = None
    session: str | None = None

    def check(self, words: Sequence[str]) -> None:
        """Check that the choice is possible.

        Raises:
            WrongUsageError: more than one is given, one is given for a family, or ``--circuit`` for several tools.
        """
        chosen = sum(one is not None for one in (self.circuit, self.user, self.session))
        if self.family and chosen:
            raise WrongUsageError("A family has one circuit.", hint="Leave out --circuit, --user and --session.")
        if chosen > 1:
            raise WrongUsageError("--circuit, --user and --session name one circuit each.", hint="Give one of them.")
        if self.circuit is not None and len(set(words)) > 1:
            raise WrongUsageError("--circuit names one circuit of one tool.", hint="Name that tool alone.")

    def circuit_of(self, tool: str) -> str:
        """Return the id of the chosen circuit. A tool's name stands for all of its circuits."""
        if self.circuit is not None:
            return self.circuit
        if self.family:
            return family_circuit_id(tool)
        for scope, whose in (("user", self.user), ("session", self.session)):
            if whose is not None:
                return f"{tool}|{scope}={whose}"
        return tool

    def fields(self, circuit_id: str) -> dict[str, str]:
        """Return the chosen circuit as a field of the command."""
        chosen = self.family or (self.circuit, self.user, self.session) != (None, None, None)
        return {"circuit_id": circuit_id} if chosen else {}


def operate(
    command: str,
    verb: Verb,
    words: Sequence[str],
    how: CommandOptions,
    which: CircuitOptions,
    *,
    duration: str | None = None,
) -> int:
    """Send the verb to every tool that ``words`` name, and print the results.

    Args:
        command: Name of the command, for messages.
        verb: What is commanded.
        words: Names of tools, and globs.
        how: The common options.
        which: Which circuits of them.
        duration: How long it holds, as people write it.

    Returns:
        The exit code: 0 applied (or sent, with --no-wait), 1 not confirmed, refused or declined.

    Raises:
        WrongUsageError: the command can't be one, or the tools are not known.
        BrokerUnavailableError: no broker took it.
    """
    which.check(words)
    until = None if duration is None else datetime.now(UTC) + parse_duration(duration)
    fields = {} if until is None else {"until": until}
    for word in words:
        how.command(word, verb, **fields, **which.fields(which.circuit_of(word)))
    settings = how.settings(which)
    from switchgear_cli.operate.targets import agreed, resolve  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(settings):
        from switchgear_cli.operate.over_api import operate_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        answered = operate_over_api(settings, command, verb, words, how, which, duration=duration)
        if answered is not None:
            return answered
    targets = asyncio.run(
        resolve(settings, words, create=which.create, circuit_of=which.circuit_of, family=which.family)
    )
    if not agreed(targets, command, yes=which.yes):
        return NOT_DONE
    if duration is not None:  # the person may have taken a while to answer
        fields = {"until": datetime.now(UTC) + parse_duration(duration)}
    commands = [how.command(tool, verb, **fields, **which.fields(cid)) for tool, cid in targets.circuits.items()]
    return send(settings, commands, how)


def set_policy(name: str, policy: BreakerPolicy, how: CommandOptions, names: NameOptions) -> int:
    """Set values of a tool's, a family's or a glob's policy. A glob isn't expanded: it applies to later tools too.

    Returns:
        The exit code, as of :func:`operate`.

    Raises:
        WrongUsageError: nothing knows the tool or family, or a glob is given for families.
        BrokerUnavailableError: no broker took it.
    """
    command, settings = (
        how.command(name, "set_policy", policy=policy, **_circuit(name, names.family)),
        how.settings(names),
    )
    from switchgear_cli.operate.targets import own_circuit, resolve  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(settings) and not names.family:
        from switchgear_cli.operate.over_api import set_policy_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        values = policy.model_dump(mode="json", exclude_unset=True)
        answered = set_policy_over_api(settings, name, values, how, create=names.create)
        if answered is not None:
            return answered
    if not is_glob(name):
        circuit_of = family_circuit_id if names.family else own_circuit
        asyncio.run(resolve(settings, [name], create=names.create, circuit_of=circuit_of, family=names.family))
    return send(settings, [command], how)


def _circuit(name: str, family: bool) -> dict[str, str]:
    """Return the circuit of a policy command, as a field of it.

    Raises:
        WrongUsageError: a glob is given for families.
    """
    if family and is_glob(name):
        raise WrongUsageError("Values are set for one family at a time.", hint="Name it, without wildcards.")
    return {"circuit_id": family_circuit_id(name)} if family else {}


def clear_policy(name: str, how: CommandOptions, *, family: bool = False) -> int:
    """Remove the values that were set for a tool, a family or a glob.

    Returns:
        The exit code, as of :func:`operate`; 1 where nothing was set.

    Raises:
        NothingSetError: nothing is set for that name; nothing was sent.
        BrokerUnavailableError: no broker took it.
    """
    circuit = _circuit(name, family)
    command, settings = how.command(name, "set_policy", policy=BreakerPolicy(), **circuit), how.settings(NameOptions())
    from switchgear_cli.operate.targets import check_is_set  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(settings) and not family:
        from switchgear_cli.operate.over_api import set_policy_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        answered = set_policy_over_api(settings, name, {}, how, create=True)
        if answered is not None:
            return answered
    asyncio.run(check_is_set(settings, name, circuit.get("circuit_id", name)))
    return send(settings, [command], how, done=("applied", "sent"))


def send(
    settings: Settings,
    commands: Sequence[Command],
    how: CommandOptions,
    *,
    done: Collection[CommandOutcome] = ("applied", "unchanged", "sent"),
) -> int:
    """Send the commands and print the result of each.

    Returns:
        The exit code: 0 where every outcome is among ``done``.

    Raises:
        BrokerUnavailableError: no broker took them.
    """
    from switchgear_sinks.operate.send_command import send_command  # noqa: PLC0415 - imports aiokafka, 100 ms that `--help` must not

    try:
        answers = asyncio.run(send_command(settings, commands, wait_s=how.timeout if how.wait else None))
    except KeyboardInterrupt:
        print("switchgear: Interrupted. What was sent is applied as soon as a worker reads it.", file=sys.stderr)
        return INTERRUPTED
    for given in answers:
        if how.json:
            print(json_module.dumps(given.document()))
        else:
            print(given.sentence(), file=sys.stdout if given.outcome in done else sys.stderr)
    return 0 if all(given.outcome in done for given in answers) else NOT_DONE
