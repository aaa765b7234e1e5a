"""Run an operator command from its options to the printed results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from switchgear.policies.glob import is_glob
from switchgear_api.operate.command_result import CommandOutcome
from switchgear_cli.operate.options import NOT_DONE, CircuitOptions, CommandOptions, NameOptions
from switchgear_cli.operate.results import CHANGED, IN_FORCE, interrupted, print_result
from switchgear_cli.times import parse_duration
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.policy import BreakerPolicy

if TYPE_CHECKING:
    from switchgear_cli.operate.over_api import OverApi
    from switchgear_cli.operate.over_kafka import OverKafka


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
    lasts = None if duration is None else parse_duration(duration)
    fields = {} if lasts is None else {"until": datetime.now(UTC) + lasts}
    for word in words:
        how.command(word, verb, **fields, **which.fields(which.circuit_of(word)))
    from switchgear_cli.operate.targets import agreed  # noqa: PLC0415 - see _reached()

    with _reached(how, which) as fleet:
        targets = fleet.find(words, create=which.create, circuit_of=which.circuit_of, family=which.family)
        if not agreed(targets, command, family=which.family, yes=which.yes):
            return NOT_DONE
        commands = [how.command(tool, verb, **which.fields(cid)) for tool, cid in targets.circuits.items()]
        return _send(fleet, commands, how, IN_FORCE, lasts)


def set_policy(name: str, policy: BreakerPolicy, how: CommandOptions, names: NameOptions) -> int:
    """Set values of a tool's, a family's or a glob's policy. A glob isn't expanded: it applies to later tools too.

    Returns:
        The exit code, as of :func:`operate`.

    Raises:
        WrongUsageError: nothing knows the tool or family, or a glob is given for families.
        BrokerUnavailableError: no broker took it.
    """
    command = how.command(name, "set_policy", policy=policy, **_circuit(name, names.family))
    from switchgear_cli.operate.targets import family_circuit, own_circuit  # noqa: PLC0415 - see _reached()

    with _reached(how, names) as fleet:
        if not is_glob(name):
            circuit_of = family_circuit if names.family else own_circuit
            fleet.find([name], create=names.create, circuit_of=circuit_of, family=names.family)
        return _send(fleet, [command], how, IN_FORCE)


def set_policies(policies: Mapping[str, BreakerPolicy], how: CommandOptions, names: NameOptions) -> int:
    """Set values of several policies, by name or glob. The names aren't looked up.

    Returns:
        The exit code, as of :func:`operate`.

    Raises:
        BrokerUnavailableError: no broker took them.
    """
    commands = [how.command(name, "set_policy", policy=policy) for name, policy in policies.items()]
    with _reached(how, names) as fleet:
        return _send(fleet, commands, how, IN_FORCE)


def _circuit(name: str, family: bool) -> dict[str, str]:
    """Return the circuit of a policy command, as a field of it.

    Raises:
        WrongUsageError: a glob is given for families.
    """
    if family and is_glob(name):
        raise WrongUsageError("Values are set for one family at a time.", hint="Name it, without wildcards.")
    return {"circuit_id": circuit_id(name, "family")} if family else {}


def clear_policy(name: str, how: CommandOptions, *, family: bool = False) -> int:
    """Remove the values that were set for a tool, a family or a glob.

    Returns:
        The exit code, as of :func:`operate`; 1 where nothing was set.

    Raises:
        NothingSetError: nothing is set for that name; nothing was sent.
        BrokerUnavailableError: no broker took it.
    """
    command = how.command(name, "set_policy", policy=BreakerPolicy(), **_circuit(name, family))
    with _reached(how, NameOptions()) as fleet:
        fleet.check_is_set(command)
        return _send(fleet, [command], how, CHANGED)


@contextmanager
def _reached(how: CommandOptions, names: NameOptions) -> Iterator[OverApi | OverKafka]:
    """Yield the fleet through the API, or through Kafka if the options say so or no API answers."""
    system = how.system(names)
    from switchgear_cli.operate.over_api import over_api  # noqa: PLC0415 - imports aiokafka, 100 ms that `--help` must not
    from switchgear_cli.operate.over_kafka import OverKafka  # noqa: PLC0415 - the same

    with over_api(system, how) if how.over_api(system) else nullcontext() as fleet:
        yield fleet or OverKafka(system.settings, how)


def _send(
    fleet: OverApi | OverKafka,
    commands: Sequence[Command],
    how: CommandOptions,
    done: Collection[CommandOutcome],
    lasts: timedelta | None = None,
) -> int:
    """Send the commands and print the result of each. Return the exit code: 0 if every outcome is among ``done``."""
    try:
        with closing(fleet.send(commands, lasts)) as results:
            good = [print_result(given, json=how.json, done=done, more=more) for given, more in results]
    except KeyboardInterrupt:
        return interrupted()
    return 0 if all(good) else NOT_DONE
