"""Errors about a command line.

What is wrong with which argument, and what to write. Exit code 2; nothing was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from cyclopts import (
        Argument,
        CoercionError,
        CycloptsError,
        MissingArgumentError,
        RepeatArgumentError,
        UnknownCommandError,
        UnknownOptionError,
        UnusedCliTokensError,
        ValidationError,
    )

EXAMPLES: Final[Mapping[str, str]] = {
    "--actor": "ada@ops",
    "--alerts": "alerts.toml",
    "--alerts-port": "8624",
    "--allowed-host": "gear.example.com",
    "--api-port": "8620",
    "--api-url": "http://127.0.0.1:8620",
    "--apply": "metrics-only",
    "--bootstrap-servers": "localhost:9092",
    "--call-timeout": "60",
    "--candidates": "500",
    "--circuit": "'search|session=s-17'",
    "--clickhouse": "http://user:password@localhost:8123/switchgear",
    "--cluster": "main",
    "--compare": "stricter.toml",
    "--component": "worker",
    "--config": "mcp.json",
    "--data-dir": "./switchgear-data",
    "--delay-usd": "0.001",
    "--env": "GITHUB_TOKEN",
    "--expires": "90d",
    "--fallback": "search=backup_search",
    "--field": "status",
    "--file": "fixed.jsonl",
    "--for": "10m",
    "--forward-header": "authorization",
    "--gateway-port": "8622",
    "--grpc": "127.0.0.1:8623",
    "--header": "'Authorization: Bearer TOKEN'",
    "--header-env": "GITHUB_HEADER",
    "--hours": "24",
    "--http": "127.0.0.1:8621",
    "--instance-id": "worker-1",
    "--interval": "2",
    "--kafka-port": "9092",
    "--late-after-s": "300",
    "--limit": "100",
    "--log-format": "json",
    "--log-level": "warning",
    "--max-result": "8",
    "--max-sessions": "32",
    "--name": "github",
    "--only": "github",
    "--otlp-grpc": "127.0.0.1:4317",
    "--otlp-port": "4317",
    "--outages": "outages.json",
    "--partitions": "12",
    "--plot": "tune.svg",
    "--policy-file": "policies.toml",
    "--processes": "2",
    "--reason": '"vendor maintenance"',
    "--refused-usd": "0.02",
    "--replication-factor": "3",
    "--retention-days": "30",
    "--second-usd": "0.01",
    "--role": "service",
    "--roles": "read",
    "--seconds": "60",
    "--seed": "7",
    "--service": "planner",
    "--session": "s-17",
    "--session-idle": "1800",
    "--session-timeout-s": "10",
    "--settings": "~/.claude/settings.json",
    "--since": "2h",
    "--speed": "60",
    "--stamp": "1",
    "--state-dir": "./alerts-state",
    "--state-file": "hooks.db",
    "--tenant": "acme",
    "--tenant-reader": "acme=acme_sql",
    "--terminal-after": "5",
    "--threshold-ms": "5000",
    "--timeout": "10",
    "--token-usd": "0.000003",
    "--tokens-file": "tokens.toml",
    "--toml": "proposed.toml",
    "--tool": "mcp:weather:get_forecast",
    "--tools": "'mcp__*,WebFetch'",
    "--topic-prefix": "switchgear.",
    "--until": "2026-11-21T10:00:00Z",
    "--unwrap": "~/.cursor/mcp.json",
    "--url": "https://host/mcp",
    "--url-env": "GITHUB_URL",
    "--user": "ana",
    "--values-file": "values.toml",
    "--worker-port": "8621",
    "--worker-url": "http://127.0.0.1:8621",
    "--workers": "2",
    "--wrap": "~/.cursor/mcp.json",
    "DAYS": "30",
}
"""An example value for every option that takes one, and for arguments that aren't text. Each meaning has one
spelling in all commands.
"""
_KINDS: Final = {int: "a whole number", float: "a number"}


def sentence(error: CycloptsError, invoked: str | None) -> str:
    """Return what the parser found, for a person.

    Args:
        error: as cyclopts raised it.
        invoked: the command's first word, where the error doesn't say it.
    """
    command = " ".join(["switchgear", *(error.command_chain or ([invoked] if invoked else []))])
    write = _SENTENCES.get(type(error).__name__)
    found = None if write is None else write(error, command)
    return f"{found or ' '.join(str(error).split())} Try `{command} --help`."


def _missing(error: MissingArgumentError, command: str) -> str | None:
    if error.argument is None:
        return None
    name = _name(error.argument, error.keyword)
    if name.startswith("-"):
        return f"{name} needs a value{f', e.g. {_written(name)}' if name in EXAMPLES else ''}."
    return f"{name} is missing. Usage: {_usage(error, command)}."


def _of_a_wrong_type(error: CoercionError, _command: str) -> str | None:
    argument, token = error.argument, error.token
    if argument is None or token is None:
        return None
    name = _name(argument, token.keyword)
    if argument.hint is bool:
        return f"{name} takes no value."
    example = f" Write e.g. {_written(name)}." if name in EXAMPLES else ""
    return f"{name} {token.value!r} is not {_kind(error.target_type)}.{example}"


def _out_of_bounds(error: ValidationError, _command: str) -> str | None:
    argument, said = error.argument, error.exception_message
    if argument is None or not argument.tokens or not said.startswith("Must "):
        return said or None
    token = argument.tokens[0]
    return f"{_name(argument, token.keyword)} must {said.removeprefix('Must ').rstrip('.')}, got {token.value}."


def _unknown_option(error: UnknownOptionError, command: str) -> str | None:
    given = (error.token.keyword or error.token.value).partition("=")[0]
    positional = {each.name for each in error.argument_collection if _is_positional(each)}
    if given.lstrip("-").replace("-", "_").upper() not in positional:
        return None
    return f"{given} is not an option: write its value alone. Usage: {_usage(error, command)}."


def _unknown_command(error: UnknownCommandError, _command: str) -> str | None:
    first = (error.unused_tokens or [""])[0]
    return f"Unknown option: {first}." if first.startswith("-") else None


def _too_many(error: UnusedCliTokensError, command: str) -> str | None:
    if not error.unused_tokens:
        return None
    return f"{error.unused_tokens[0]!r} is one argument too many. Usage: {_usage(error, command)}."


def _twice(error: RepeatArgumentError, _command: str) -> str | None:
    return f"{error.token.keyword} is given more than once."


_SENTENCES: Final[Mapping[str, Callable[[Any, str], str | None]]] = {
    "MissingArgumentError": _missing,
    "CoercionError": _of_a_wrong_type,
    "ValidationError": _out_of_bounds,
    "UnknownOptionError": _unknown_option,
    "UnknownCommandError": _unknown_command,
    "UnusedCliTokensError": _too_many,
    "RepeatArgumentError": _twice,
}
"""By the name of the error's class, because cyclopts is an extra. None uses cyclopts's own words."""


def _name(argument: Argument, keyword: str | None) -> str:
    """Return the argument as it was written. An argument without a name is in capitals."""
    return keyword or argument.name


def _is_positional(argument: Argument) -> bool:
    return not argument.name.startswith(("-", "*"))


def _usage(error: CycloptsError, command: str) -> str:
    """Return the command with its positional arguments."""
    arguments = error.app.assemble_argument_collection() if error.app is not None else ()
    words = [command]
    for each in filter(_is_positional, arguments):
        several = "..." if each.field_info.kind is each.field_info.kind.VAR_POSITIONAL else ""
        words.append(f"{each.name}{several}" if each.required else f"[{each.name}{several}]")
    return " ".join([*words, "[OPTIONS]"])


def _kind(hint: Any) -> str:
    choices = get_args(hint)
    if choices:
        return f"one of {', '.join(map(str, choices))}"
    return _KINDS.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _written(name: str) -> str:
    """Return the argument with a value, as a person would type it."""
    return f"{name} {EXAMPLES[name]}" if name.startswith("-") else EXAMPLES[name]
