"""Run operator commands through the HTTP API, which records them, so that an operator needs no access to Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from switchgear_api.operate.command_result import CommandResult
from switchgear_cli.discovery import System
from switchgear_cli.operate.options import CommandOptions
from switchgear_cli.operate.targets import Atlas, Targets, nothing_set, own_circuit, subject_of
from switchgear_cli.reads.client import ApiAnswerError, ApiClient, ApiUnavailableError
from switchgear_cli.reads.formats import plain
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.command import Command
from switchgear_schemas.errors import InvalidExecutionError, WrongUsageError

NO_REASON: Final = "no reason given"
_ANSWER_S: Final = 20.0
"""Seconds that an answer may take besides the wait for the worker: the API connects to Kafka and writes the record."""
_LONGEST_WAIT_S: Final = 300.0
_AT_A_TIME: Final = 8
_REFUSED: Final = 400
_NO_ACCESS: Final = (401, 403)
_LATER: Final = "It is in the log, and applied as soon as a worker reads it."


class OverApi:
    """The fleet, as the API shows it.

    Args:
        api: The client.
        system: The system that is commanded.
        how: The common options.
        known: The answer of :meth:`ApiClient.known`.
    """

    def __init__(self, api: ApiClient, system: System, how: CommandOptions, known: Mapping[str, Any]) -> None:
        self._api = api
        self._how = how
        self._known = known
        self._fields: dict[str, Any] = {"reason": how.reason or NO_REASON}
        if system.settings.token is None:
            self._fields["actor"] = how.person()

    def find(self, words: Sequence[str], *, create: bool, circuit_of: Callable[[str], str], family: bool) -> Targets:
        """Return the circuits that names and globs mean.

        Raises:
            WrongUsageError: A glob matches nothing, a name is unknown, or a circuit is another tool's.
        """
        targets = Atlas.of_answer(self._known, family=family).find(words, create, circuit_of)
        for tool, circuit_id in targets.circuits.items():
            if read_circuit_id(circuit_id).name != tool:
                raise WrongUsageError(f"{circuit_id!r} is not a circuit of {tool!r}.", hint="Name its own tool.")
        return targets

    def check_is_set(self, command: Command) -> None:
        """Check that ``policy set`` has values for what a command clears, or that unread commands may set some.

        Raises:
            NothingSetError: It has none.
        """
        found = self._known["policies_set"]
        if subject_of(command) not in found and not self._known["commands_wait"]:
            raise nothing_set(command.tool_name, found)

    def send(
        self, commands: Sequence[Command], lasts: timedelta | None
    ) -> Generator[tuple[CommandResult, dict[str, Any]]]:
        """Send the commands. Yield the result of each, in their order, and what else the API says.

        All are sent. ``--timeout`` limits how long all together wait for their confirmation.

        Raises:
            ApiAnswerError: The API refuses this client.
        """
        deadline = time.monotonic() + self._how.timeout
        lasts_s = None if lasts is None else lasts.total_seconds()
        pool = ThreadPoolExecutor(_AT_A_TIME)
        try:
            yield from pool.map(lambda command: self._sent(command, lasts_s, deadline), commands)
        finally:
            pool.shutdown(cancel_futures=True)

    def _sent(self, command: Command, lasts_s: float | None, deadline: float) -> tuple[CommandResult, dict[str, Any]]:
        wait_s = round(min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT_S), 3)
        try:
            answer = self._posted(command, lasts_s, wait_s=wait_s, limit_s=wait_s + _ANSWER_S, **self._fields)
        except ApiUnavailableError as error:
            why = f"not confirmed: {error.message} `switchgear circuits` shows whether it is in force."
            return CommandResult(command, "unconfirmed", reason=why), {}
        except ApiAnswerError as error:
            if error.status != _REFUSED:
                raise
            return CommandResult(command, "refused", reason=str(error)), {}
        outcome, reason = answer["outcome"], answer["detail"] or ""
        if outcome == "sent":  # the time was over before its turn
            outcome, reason = "unconfirmed", f"not confirmed within {self._how.timeout:g} s. {_LATER}"
        command = msgspec.structs.replace(command, command_id=UUID(answer["command_id"]))
        return CommandResult(command, outcome, _circuit(answer["circuit"]), reason), {"audit_id": answer["audit_id"]}

    def _posted(self, command: Command, lasts_s: float | None, **how: Any) -> dict[str, Any]:
        name = command.tool_name
        if command.policy is None:
            return self._api.command(command.circuit_id or own_circuit(name), command.verb, lasts_s, **how)
        values = command.policy.model_dump(mode="json", exclude_unset=True)
        return self._api.set_policy(name, values, family=command.circuit_id is not None, **how)


@contextmanager
def over_api(system: System, how: CommandOptions) -> Iterator[OverApi | None]:
    """Yield the fleet behind the API, or None if no API answers. If it refuses a person without a token, the error says what to do.

    Raises:
        ApiUnavailableError: The address is not one.
        ApiAnswerError: The API refuses.
    """
    try:
        with ApiClient.of(system.settings, answer_limit_s=how.timeout + _ANSWER_S) as api:
            known = _known(api, system)
            yield None if known is None else OverApi(api, system, how, known)
    except ApiAnswerError as error:
        if system.settings.token is not None or error.status not in _NO_ACCESS:
            raise
        hint = (
            "Nothing was sent. Set SWITCHGEAR_TOKEN to a token of this API (`switchgear token create` makes one), "
            "or name Kafka with --bootstrap-servers."
        )
        raise ApiAnswerError(error.message, hint=hint, status=error.status) from None


def _known(api: ApiClient, system: System) -> dict[str, Any] | None:
    """Return what the API knows. None if it does not answer; an address that is a mere default is then not mentioned."""
    try:
        return api.known()
    except ApiUnavailableError as error:
        if system.api != "default" or system.settings.token is not None:
            print(f"switchgear: {plain(error.message)} The command goes to Kafka.", file=sys.stderr)
        return None


def _circuit(record: Mapping[str, Any] | None) -> Circuit | None:
    try:
        return None if record is None else Circuit.from_dict(record)
    except InvalidExecutionError:  # of a newer API
        return None
