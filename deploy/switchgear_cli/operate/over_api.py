"""Run operator commands through the HTTP API, so that an operator needs no access to Kafka."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from switchgear.policies.glob import is_glob
from switchgear_cli.operate.options import NOT_DONE, CircuitOptions, CommandOptions
from switchgear_cli.operate.targets import Atlas, agreed
from switchgear_cli.reads.client import ApiClient, ApiUnavailableError
from switchgear_cli.reads.formats import named, plain
from switchgear_cli.times import parse_duration
from switchgear_schemas.command import Verb
from switchgear_schemas.settings import Settings

NO_REASON: Final = "no reason given"
_DONE: Final = ("applied", "unchanged")


def operate_over_api(
    settings: Settings,
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
        ApiAnswerError: The API refuses a command.
    """
    with ApiClient.of(settings) as api:
        now = _now(api)
        if now is None:
            return None
        rows = now["families"] if which.family else now["tools"]
        states = {each["circuit_id"]: each["state"] for each in [*now["tools"], *now["families"]]}
        atlas = Atlas(states, frozenset(each["tool"] for each in rows))
        targets = atlas.find(
            words, which.create or bool(which.user or which.session or which.circuit), which.circuit_of
        )
        if not agreed(targets, command, yes=which.yes):
            return NOT_DONE
        expires_in_s = None if duration is None else parse_duration(duration).total_seconds()

        def send(circuit_id: str) -> dict[str, Any]:
            return api.command(circuit_id, verb, how.reason or NO_REASON, expires_in_s)

        return _all(targets.circuits.values(), send, how)


def set_policy_over_api(
    settings: Settings, name: str, values: Mapping[str, Any], how: CommandOptions, *, create: bool
) -> int | None:
    """Set or remove values of a policy, and print the result.

    Returns:
        The exit code; None if no API answers.

    Raises:
        WrongUsageError: Nothing knows the tool.
        ApiAnswerError: The API refuses the values.
    """
    with ApiClient.of(settings) as api:
        now = _now(api)
        if now is None:
            return None
        if not is_glob(name):
            Atlas({}, frozenset(each["tool"] for each in now["tools"])).find([name], create, str)
        return _all([name], lambda pattern: api.set_policy(pattern, values, how.reason or NO_REASON), how)


def _all(subjects: Any, send: Callable[[str], dict[str, Any]], how: CommandOptions) -> int:
    done = True
    for subject in subjects:
        answer = send(subject)
        good = answer["outcome"] in _DONE
        done = done and good
        if how.json:
            print(json_module.dumps({"subject": subject} | answer))
        else:
            print(_sentence(subject, answer), file=sys.stdout if good else sys.stderr)
    return 0 if done else NOT_DONE


def _sentence(subject: str, answer: Mapping[str, Any]) -> str:
    after, outcome, detail = answer["after"] or {}, answer["outcome"], plain(answer["detail"])
    if outcome not in _DONE:
        return f"{named(subject)}: {detail or outcome}"
    if "values" in after:
        return f"{named(subject)}: {'the policy is set' if after['values'] else 'what was set is taken back'}."
    state = str(after.get("state", "")).replace("_", " ")
    if outcome == "unchanged":
        return f"{named(subject)}: {state} already; nothing changed."
    why = plain(after.get("why")).rstrip(".")
    return f"{named(subject)}: {state}{f': {why}' if why else ''}."


def _now(api: ApiClient) -> dict[str, Any] | None:
    """Return what the API knows. None, and say so, if it does not answer."""
    try:
        return api.now()
    except ApiUnavailableError as error:
        print(f"switchgear: {plain(error.message)} The command goes to Kafka.", file=sys.stderr)
        return None
