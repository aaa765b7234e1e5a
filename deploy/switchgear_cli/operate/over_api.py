"""Run operator commands through the HTTP API, which records them, so that an operator needs no access to Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from switchgear.policies.glob import is_glob
from switchgear_api.operate.command_result import CommandOutcome, CommandResult
from switchgear_cli.discovery import System
from switchgear_cli.operate.options import NOT_DONE, CircuitOptions, CommandOptions
from switchgear_cli.operate.results import CHANGED, IN_FORCE, interrupted, print_result
from switchgear_cli.operate.targets import Atlas, agreed, family_circuit, nothing_set, own_circuit, subject_of
from switchgear_cli.reads.client import ApiAnswerError, ApiClient, ApiUnavailableError
from switchgear_cli.reads.formats import plain
from switchgear_cli.times import parse_duration
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.errors import InvalidExecutionError, WrongUsageError

NO_REASON: Final = "no reason given"
_ANSWER_S: Final = 20.0
"""Seconds that an answer may take besides the wait for the worker: the API connects to Kafka and writes the record."""
_LONGEST_WAIT_S: Final = 300.0
_AT_A_TIME: Final = 8
_REFUSED: Final = 400
_NO_ACCESS: Final = (401, 403)
_LATER: Final = "It is in the log, and applied as soon as a worker reads it."


class Post(NamedTuple):
    """A command, and the request that gives it to the API."""

    command: Command
    request: Callable[..., dict[str, Any]]


def operate_over_api(
    system: System,
    command: str,
    verb: Verb,
    words: Sequence[str],
    how: CommandOptions,
    which: CircuitOptions,
    *,
    duration: str | None,
) -> int | None:
    """Send a command to the circuits that ``words`` name, and print the results.

    Returns:
        The exit code; None if no API answers, so that the caller sends the command to Kafka.

    Raises:
        WrongUsageError: The tools are not known.
        ApiAnswerError: The API refuses this client.
    """
    with _api(system, how) as api:
        known = _known(api, system)
        if known is None:
            return None
        atlas = Atlas.of_answer(known, family=which.family)
        targets = replace(atlas.find(words, which.create, which.circuit_of), family=which.family)
        for tool, circuit_id in targets.circuits.items():
            if read_circuit_id(circuit_id).name != tool:
                raise WrongUsageError(f"{circuit_id!r} is not a circuit of {tool!r}.", hint="Name its own tool.")
        if not agreed(targets, command, yes=which.yes):
            return NOT_DONE
        lasts_s = None if duration is None else parse_duration(duration).total_seconds()

        def post(tool: str, circuit_id: str) -> Post:
            return Post(
                how.command(tool, verb, **which.fields(circuit_id)),
                lambda **more: api.command(circuit_id, verb, lasts_s, **more),
            )

        return _send(system, [post(tool, circuit_id) for tool, circuit_id in targets.circuits.items()], how, IN_FORCE)


def set_policy_over_api(system: System, command: Command, how: CommandOptions, *, create: bool) -> int | None:
    """Set values of a policy, and print the result.

    Returns:
        The exit code; None if no API answers.

    Raises:
        WrongUsageError: Nothing knows the tool or family.
        ApiAnswerError: The API refuses this client.
    """
    name, family = command.tool_name, command.circuit_id is not None
    with _api(system, how) as api:
        known = _known(api, system)
        if known is None:
            return None
        if not is_glob(name):
            Atlas.of_answer(known, family=family).find([name], create, family_circuit if family else own_circuit)
        return _send(system, [_policy(api, command)], how, IN_FORCE)


def clear_policy_over_api(system: System, command: Command, how: CommandOptions) -> int | None:
    """Remove the values of a policy, and print the result.

    Returns:
        The exit code; None if no API answers.

    Raises:
        NothingSetError: Nothing is set for that name; nothing was sent.
        ApiAnswerError: The API refuses this client.
    """
    with _api(system, how) as api:
        known = _known(api, system)
        if known is None:
            return None
        is_set = subject_of(command) in known["policies_set"]
        if not is_set and not known["commands_wait"]:
            raise nothing_set(command.tool_name, known["policies_set"])
        return _send(system, [_policy(api, command)], how, CHANGED)


def _policy(api: ApiClient, command: Command) -> Post:
    assert command.policy is not None  # both callers set or remove values
    name, family = command.tool_name, command.circuit_id is not None
    values = command.policy.model_dump(mode="json", exclude_unset=True)
    return Post(command, lambda **more: api.set_policy(name, values, family=family, **more))


@contextmanager
def _api(system: System, how: CommandOptions) -> Iterator[ApiClient]:
    """Yield a client. If the API refuses a person without a token, the error says what to do.

    Raises:
        ApiUnavailableError: The address is not one.
        ApiAnswerError: The API refuses.
    """
    try:
        with ApiClient.of(system.settings, answer_limit_s=how.timeout + _ANSWER_S) as api:
            yield api
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


def _send(system: System, posts: Sequence[Post], how: CommandOptions, done: Collection[CommandOutcome]) -> int:
    """Send the commands and print the result of each, in their order.

    All are sent. ``--timeout`` limits how long all together wait for their confirmation.
    """
    deadline = time.monotonic() + how.timeout
    fields: dict[str, Any] = {"reason": how.reason or NO_REASON}
    if system.settings.token is None:
        fields["actor"] = how.person()
    pool = ThreadPoolExecutor(_AT_A_TIME)
    try:
        answers = pool.map(lambda post: _sent(post, fields, how.timeout, deadline), posts)
        good = [print_result(given, json=how.json, done=done, more=more) for given, more in answers]
    except KeyboardInterrupt:
        return interrupted()
    finally:
        pool.shutdown(cancel_futures=True)
    return 0 if all(good) else NOT_DONE


def _sent(
    post: Post, fields: Mapping[str, Any], timeout_s: float, deadline: float
) -> tuple[CommandResult, dict[str, Any]]:
    """Send one command. Return its result, and what else the API says."""
    wait_s = round(min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT_S), 3)
    try:
        answer = post.request(**fields, wait_s=wait_s, limit_s=wait_s + _ANSWER_S)
    except ApiUnavailableError as error:
        why = f"not confirmed: {error.message} `switchgear circuits` shows whether it is in force."
        return CommandResult(post.command, "unconfirmed", reason=why), {}
    except ApiAnswerError as error:
        if error.status != _REFUSED:
            raise
        return CommandResult(post.command, "refused", reason=str(error)), {}
    outcome, reason = answer["outcome"], answer["detail"] or ""
    if outcome == "sent":  # the time was over before its turn
        outcome, reason = "unconfirmed", f"not confirmed within {timeout_s:g} s. {_LATER}"
    command = msgspec.structs.replace(post.command, command_id=UUID(answer["command_id"]))
    result = CommandResult(command, outcome, _circuit(answer["circuit"]), reason)
    return result, {"audit_id": answer["audit_id"]}


def _circuit(record: Mapping[str, Any] | None) -> Circuit | None:
    try:
        return None if record is None else Circuit.from_dict(record)
    except InvalidExecutionError:  # of a newer API
        return None
