"""The options of operator commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_api.operate.send_command import this_person
from switchgear_cli.discovery import API, KAFKA, System, find_system
from switchgear_cli.logs import configure_client_logging
from switchgear_http.principal import claims_login
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.errors import InvalidExecutionError, WrongUsageError

NOT_DONE: Final = 1
"""Exit code of a command that is not in force."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of every operator command.

    Args:
        reason: Why, for the record and for those whose calls it refuses.
        actor: Who commands it. By default user@host, or the name of your token.
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

    def system(self, names: NameOptions | None = None) -> System:
        """Return the system that is commanded, and configure logging. With ``names``, the API must be of it."""
        found = find_system(
            use=(KAFKA,) if names is None else (KAFKA, API),
            kafka_bootstrap_servers=self.bootstrap_servers,
            topic_prefix=self.topic_prefix,
            api_url=None if names is None else names.api_url,
        )
        configure_client_logging(found.settings)
        return found

    def over_api(self, system: System) -> bool:
        """Return whether the command goes through the HTTP API, which records it, rather than to Kafka.

        It does if the API is of this system: a token is given, the API's address is named or found, or nothing is named at all. If
        Kafka alone is named, the default address may be another system's API. The options that only Kafka can follow also choose Kafka:
        brokers, a topic prefix, not to wait, and another actor than the token's. If no API answers, the caller sends the command to Kafka.
        """
        has_token = system.settings.token is not None
        if self.bootstrap_servers or self.topic_prefix or not self.wait or (self.actor and has_token):
            return False
        return has_token or system.api != "default" or system.kafka == "default"

    def person(self) -> str:
        """Return who gives the command.

        Raises:
            WrongUsageError: The name is one of those who have logged in.
        """
        if self.actor is not None and claims_login(self.actor):
            raise WrongUsageError(
                f"--actor {self.actor!r} is a name of clients that have logged in to the API.",
                hint="Give one that doesn't begin with token: or jwt:.",
            )
        return self.actor or this_person()

    def command(self, tool: str, verb: Verb, **fields: Any) -> Command:
        """Return one command.

        Raises:
            WrongUsageError: it can't be one.
        """
        try:
            return Command.from_dict(
                {"tool_name": tool, "verb": verb, "actor": self.person(), "reason": self.reason, **fields}
            )
        except InvalidExecutionError as error:
            raise WrongUsageError(f"{error.message}.") from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """The options that say which names are known.

    Args:
        create: Also a name that no circuit and no policy knows: for a tool that will be called later.
        family: The names are those of families, servers such as mcp:github. Change their circuits, not those of their tools.
        api_url: Where the HTTP API is. It also knows the tools of stored calls.
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
        """Return the id of the chosen circuit. That of the tool's own circuit stands for all of its circuits."""
        if self.circuit is not None:
            return self.circuit
        if self.family:
            return circuit_id(tool, "family")
        if self.user is not None:
            return circuit_id(tool, "user", self.user)
        return circuit_id(tool) if self.session is None else circuit_id(tool, "session", self.session)

    def fields(self, circuit_id: str) -> dict[str, str]:
        """Return the chosen circuit as a field of the command."""
        chosen = self.family or (self.circuit, self.user, self.session) != (None, None, None)
        return {"circuit_id": circuit_id} if chosen else {}
