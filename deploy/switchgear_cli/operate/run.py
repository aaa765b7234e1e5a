"""Run an operator command from its options to the printed results."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from switchgear.policies.glob import is_glob
from switchgear_api.operate.command_result import CommandOutcome
from switchgear_cli.operate.options import NOT_DONE, CircuitOptions, CommandOptions, NameOptions
from switchgear_cli.operate.results import CHANGED, IN_FORCE, interrupted, print_result
from switchgear_cli.times import parse_duration
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings


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
    system = how.system(which)
    from switchgear_cli.operate.targets import agreed, resolve  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(system):
        from switchgear_cli.operate.over_api import operate_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        answered = operate_over_api(system, command, verb, words, how, which, duration=duration)
        if answered is not None:
            return answered
    targets = asyncio.run(
        resolve(system.settings, words, create=which.create, circuit_of=which.circuit_of, family=which.family)
    )
    if not agreed(targets, command, yes=which.yes):
        return NOT_DONE
    if duration is not None:  # the person may have taken a while to answer
        fields = {"until": datetime.now(UTC) + parse_duration(duration)}
    commands = [how.command(tool, verb, **fields, **which.fields(cid)) for tool, cid in targets.circuits.items()]
    return send(system.settings, commands, how)


def set_policy(name: str, policy: BreakerPolicy, how: CommandOptions, names: NameOptions) -> int:
    """Set values of a tool's, a family's or a glob's policy. A glob isn't expanded: it applies to later tools too.

    Returns:
        The exit code, as of :func:`operate`.

    Raises:
        WrongUsageError: nothing knows the tool or family, or a glob is given for families.
        BrokerUnavailableError: no broker took it.
    """
    command = how.command(name, "set_policy", policy=policy, **_circuit(name, names.family))
    system = how.system(names)
    from switchgear_cli.operate.targets import family_circuit, own_circuit, resolve  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(system):
        from switchgear_cli.operate.over_api import set_policy_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        answered = set_policy_over_api(system, command, how, create=names.create)
        if answered is not None:
            return answered
    if not is_glob(name):
        circuit_of = family_circuit if names.family else own_circuit
        asyncio.run(resolve(system.settings, [name], create=names.create, circuit_of=circuit_of, family=names.family))
    return send(system.settings, [command], how)


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
    circuit = _circuit(name, family)
    command, system = how.command(name, "set_policy", policy=BreakerPolicy(), **circuit), how.system(NameOptions())
    from switchgear_cli.operate.targets import check_is_set  # noqa: PLC0415 - imports aiokafka, 100 ms

    if how.over_api(system):
        from switchgear_cli.operate.over_api import clear_policy_over_api  # noqa: PLC0415 - imports aiokafka, 100 ms

        answered = clear_policy_over_api(system, command, how)
        if answered is not None:
            return answered
    asyncio.run(check_is_set(system.settings, command))
    return send(system.settings, [command], how, done=CHANGED)


def send(
    settings: Settings,
    commands: Sequence[Command],
    how: CommandOptions,
    *,
    done: Collection[CommandOutcome] = IN_FORCE,
) -> int:
    """Send the commands and print the result of each.

    Returns:
        The exit code: 0 where every outcome is among ``done``.

    Raises:
        BrokerUnavailableError: no broker took them.
    """
    from switchgear_api.operate.send_command import send_command  # noqa: PLC0415 - imports aiokafka, 100 ms that `--help` must not

    try:
        answers = asyncio.run(send_command(settings, commands, wait_s=how.timeout if how.wait else None))
    except KeyboardInterrupt:
        return interrupted()
    good = [print_result(given, json=how.json, done=done) for given in answers]
    return 0 if all(good) else NOT_DONE
