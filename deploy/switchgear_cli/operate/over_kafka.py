"""Run operator commands through Kafka alone, where no HTTP API is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from switchgear.policies import PolicyError, PolicySet
from switchgear.policies.glob import is_glob
from switchgear_api.operate import send_command as sending
from switchgear_api.operate.command_result import CommandResult
from switchgear_api.operate.known_state import commands_wait, read_known
from switchgear_cli.operate.options import CommandOptions
from switchgear_cli.operate.targets import Atlas, Targets, nothing_set, subject_of
from switchgear_schemas.command import Command
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_schemas.settings import Settings


class OverKafka:
    """The fleet, as its topics show it."""

    def __init__(self, settings: Settings, how: CommandOptions) -> None:
        self._settings = settings
        self._how = how

    def find(self, words: Sequence[str], *, create: bool, circuit_of: Callable[[str], str], family: bool) -> Targets:
        """Return the circuits that names and globs mean.

        Raises:
            WrongUsageError: A glob matches nothing, or a name is unknown.
            BrokerUnavailableError: The broker didn't deliver what the workers know.
        """
        return asyncio.run(_resolve(self._settings, words, create, circuit_of, family))

    def check_is_set(self, command: Command) -> None:
        """Check that ``policy set`` has values for what a command clears, or that unread commands may set some.

        Raises:
            NothingSetError: It has none.
            BrokerUnavailableError: The broker didn't deliver what the workers know.
        """
        asyncio.run(_check_is_set(self._settings, command))

    def send(
        self, commands: Sequence[Command], lasts: timedelta | None
    ) -> Generator[tuple[CommandResult, dict[str, Any]]]:
        """Send the commands, and yield the result of each.

        Raises:
            BrokerUnavailableError: No broker took them.
        """
        if lasts is not None:
            until = datetime.now(UTC) + lasts
            commands = [msgspec.structs.replace(command, until=until) for command in commands]
        wait_s = self._how.timeout if self._how.wait else None
        for result in asyncio.run(sending.send_command(self._settings, commands, wait_s=wait_s)):
            yield result, {}


async def _resolve(
    settings: Settings, words: Iterable[str], create: bool, circuit_of: Callable[[str], str], family: bool
) -> Targets:
    """Expand globs over the known tools, and check that every name is known.

    A tool is known from the workers' table, or from a plain name in the policy file. If a word with wildcards is itself the name of a
    known tool, it means that tool.

    Args:
        settings: The brokers and the policy file.
        words: Names and globs.
        create: Accept unknown names.
        circuit_of: Returns the chosen circuit of a tool. If it isn't the tool's own circuit, it must exist.
        family: The words name families. They are known from the workers' table alone.

    Raises:
        WrongUsageError: A glob matches nothing, or a name is unknown.
        BrokerUnavailableError: The broker didn't deliver what the workers know.
    """
    named = list(dict.fromkeys(words))
    wanted = {word: circuit_of(word) for word in named}
    if not any(map(is_glob, named)):
        if create:
            return Targets(wanted)
        try:
            known = await read_known(settings, named, enough=wanted.values())
        except BrokerUnavailableError as error:
            raise BrokerUnavailableError(
                error.message, hint=f"{error.hint} With --create, names are not looked up."
            ) from error
        if known.circuits.keys() >= set(wanted.values()):
            return Targets(wanted)
    return (await _atlas(settings, family)).find(named, create, circuit_of)


async def _check_is_set(settings: Settings, command: Command) -> None:
    name, subject = command.tool_name, subject_of(command)
    if subject in (await read_known(settings, [name])).policies_set():
        return
    found = (await read_known(settings)).policies_set()
    if subject not in found and not await commands_wait(settings):
        raise nothing_set(name, found)


async def _atlas(settings: Settings, family: bool) -> Atlas:
    known = await read_known(settings)
    states = {circuit_id: row.state for circuit_id, row in known.circuits.items()}
    if family:
        return Atlas(states, frozenset(known.families()))
    planned: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    try:
        planned = PolicySet.load(settings.policy_file).tool_names
    except PolicyError as error:
        remarks = (f"The policy file was not looked at: {error.message}",)
    return Atlas(states, frozenset([*known.tools(), *planned]), remarks)
