"""Check the arguments of constructors where they are given, so that a wrong value fails there and not hours later in a call.

There is one function for each kind of value. It takes the argument's name and value, and raises OptionError if the value is
impossible.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, TypeGuard

from switchgear.guard.tool_function import examine
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.enums import LONGEST_WAIT_S, MAX_NAME_LENGTH, SHORTEST_WAIT_S
from switchgear_schemas.errors import SettingsError, SwitchgearError
from switchgear_schemas.families import patterns_of
from switchgear_schemas.globs import globs_in
from switchgear_schemas.plain_policy import PlainPolicy

if TYPE_CHECKING:
    from switchgear_schemas.settings import ClientSettings


COMPRESSIONS: Final = ("gzip", "snappy", "lz4", "zstd")
_MOST_PREFIX: Final = 200
"""Kafka's topic names have at most 249 characters, and our own names follow the prefix."""
MOST_S: Final = 1e9
"""31 years, less than the longest wait of a thread (``threading.TIMEOUT_MAX``)."""


class OptionError(SwitchgearError, ValueError):
    """An option is unknown, out of range, or impossible for its function."""


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is an integer. True and False aren't numbers here."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is an integer or a float. NaN and infinity are: check the range too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def possible_wait(seconds: float) -> float:
    """Return the nearest wait that a policy allows: at least a nanosecond, at most a year."""
    return min(max(seconds, SHORTEST_WAIT_S), LONGEST_WAIT_S)


def shown(value: object) -> str:
    """Return the beginning of ``repr(value)``."""
    return f"{value!r:.100}"


def impossible(name: str, meant: str, value: object, hint: str = "") -> NoReturn:
    """Raise an OptionError: ``name`` must be what is ``meant``, not ``value``."""
    raise OptionError(f"{name} must be {meant}, not {shown(value)}.", hint=hint)


def text(name: str, value: object) -> None:
    """Check for a string, which may be empty."""
    if not isinstance(value, str):
        impossible(name, "a string", value)


def number(name: str, value: object, *, least: float = 0.0, most: float = MOST_S) -> None:
    """Check for a number of seconds in a range. NaN is in none."""
    if not is_number(value) or not least <= value <= most:
        impossible(name, f"a number of seconds from {least:g} to {most:.0e}", value)


def numbers(**seconds: object) -> None:
    """Check for numbers of seconds, by the names of the arguments."""
    for name, value in seconds.items():
        number(name, value)


def whole(name: str, value: object, *, least: int = 1) -> None:
    """Check for a whole number of at least ``least``."""
    if not is_whole(value) or value < least:
        impossible(name, f"a whole number from {least}", value)


def flag(name: str, value: object) -> None:
    """Check for True or False."""
    if not isinstance(value, bool):
        impossible(name, "True or False", value)


def one_of(name: str, value: object, words: Collection[str]) -> None:
    """Check for one of ``words``."""
    if not isinstance(value, str) or value not in words:
        impossible(name, f"one of {', '.join(words)}", value)


def function(name: str, value: object, hint: str = "") -> None:
    """Check for a function that is called and not awaited."""
    if not callable(value):
        impossible(name, "a function", value, hint)
    if examine(value).kind != "function":
        impossible(name, "a plain function", value, "It is called and not awaited: leave out the async.")


def is_policy(value: object) -> bool:
    """Return whether ``value`` is a BreakerPolicy, or the plain one.

    Whoever has made a BreakerPolicy has imported its module. This function doesn't: pydantic takes 70 ms to import.
    """
    policies = sys.modules.get("switchgear_schemas.policy")
    kinds = (PlainPolicy,) if policies is None else (PlainPolicy, policies.BreakerPolicy)
    return isinstance(value, kinds)


class Renamer:
    """A function from a name to its new name, which was checked.

    Args:
        argument: What the caller passed it as, for messages.
        names: A mapping, which may lack names, a function, or None.
    """

    __slots__ = ("_argument", "_names")

    def __init__(self, argument: str, names: Any) -> None:
        if callable(names):
            function(argument, names)
        elif names is not None and not isinstance(names, Mapping):
            impossible(argument, "a dict or a function, from a name to a name", names)
        self._argument = argument
        self._names = names

    def __call__(self, name: str) -> str:
        """Return the new name.

        Raises:
            OptionError: It isn't a name.
        """
        names = self._names
        if names is None:
            return name
        found = names.get(name, name) if isinstance(names, Mapping) else names(name)
        if not isinstance(found, str) or not found:
            hint = "Leave out names that stay as they are."
            impossible(f"The name that {self._argument} has for {name!r}", "text", found, hint)
        return found


def renamer(argument: str, names: Any) -> Renamer:
    """Return a :class:`Renamer`. One that was made before is not checked again: an agent's tools are listed before each turn."""
    return names if isinstance(names, Renamer) else Renamer(argument, names)


def policies(name: str, value: object) -> None:
    """Check for a policy, policies by tool name, a function from the name to the policy, a policy set, or None."""
    if value is None or is_policy(value) or (hasattr(value, "effective_family") and not isinstance(value, type)):
        return
    hint = f'{name}=BreakerPolicy(...), or {{"tool": BreakerPolicy(...)}}'
    if isinstance(value, Mapping):
        for tool, policy in value.items():
            if not isinstance(tool, str):
                impossible(f"A tool's name in {name}", "a string", tool, hint)
            if not is_policy(policy):
                impossible(f"{name}[{tool!r}]", "a BreakerPolicy", policy, hint)
        return
    if isinstance(value, type) or not callable(value):
        impossible(name, "a BreakerPolicy, a dict of them by tool name, or a function", value, hint)
    function(name, value)


def secret_key(name: str, value: object) -> None:
    """Check for bytes to hash with. The message doesn't show them."""
    if not isinstance(value, (bytes, bytearray)) or not 1 <= len(value) <= 64:
        raise OptionError(f"{name} must be 1 to 64 bytes.", hint=f'{name}=b"..."')


def secret(name: str, value: object) -> None:
    """Check for a text that is a secret. The message doesn't show it."""
    if not isinstance(value, str):
        raise OptionError(
            f"{name} must be a string, not {type(value).__name__}.", hint="Only a salted hash of it is kept."
        )


def identifier(name: str, value: object, hint: str, *, least: int = 0) -> None:
    """Check for a name or id that goes with every event."""
    if not isinstance(value, str):
        impossible(name, "text", value, hint)
    if not least <= len(value) <= MAX_NAME_LENGTH:
        raise OptionError(f"{name} must have {least} to {MAX_NAME_LENGTH} characters, not {len(value)}.", hint=hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        impossible(name, "text that can be encoded as UTF-8", value)


def tool_name(tool: object) -> None:
    """Check the name of a tool. It names the circuit."""
    identifier("The name of a tool", tool, 'For example @gear.guard("mcp:weather:get_forecast").', least=1)


def tool_names(name: str, value: object, hint: str = "") -> tuple[str, ...]:
    """Return the name of a tool, or several in order, as a tuple."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(tool, str) and tool for tool in names):
        impossible(name, "a tool's name or a list of names", value, hint)
    return tuple(names)


def globs(name: str, value: object) -> tuple[str, ...]:
    """Return globs of the names of tools as a tuple. A text in place of a list is refused: its letters would be globs."""
    if isinstance(value, str) or not isinstance(value, Collection):
        impossible(name, "a list of globs", value, f'{name}=["mcp:weather:*"]')
    for glob in value:
        if not isinstance(glob, str) or not glob:
            impossible(
                f"A glob in {name}", "the name of a tool or a pattern of names", glob, f'{name}=["mcp:weather:*"]'
            )
    return tuple(value)


def connection(name: str, value: object) -> KafkaConnection:
    """Return a connection from itself or from ``host:port``, comma-separated.

    Raises:
        SwitchgearError: It is neither, or an address is wrong.
    """
    if isinstance(value, KafkaConnection):
        return value
    if not isinstance(value, str):
        impossible(name, "host:port, or a KafkaConnection", value, 'Several: "a:9092,b:9092", in one string.')
    return KafkaConnection(value)


def beginning(name: str, value: object) -> None:
    """Check for the beginning of a topic's name. It may be empty."""
    if not isinstance(value, str) or not re.fullmatch(rf"[a-zA-Z0-9._-]{{0,{_MOST_PREFIX}}}", value):
        impossible(name, f"at most {_MOST_PREFIX} of the characters a-z, A-Z, 0-9, dot, _ and -", value)


def folder(name: str, value: object) -> None:
    """Check for a path, or None."""
    if value is not None and (not isinstance(value, (str, os.PathLike)) or not os.fspath(value)):
        impossible(name, "the path of a folder, or None", value)


def sending(
    *,
    service: object,
    topic_prefix: object,
    family_pattern: str,
    buffer_size: object,
    compression: object,
    spool_dir: object,
    spool_bytes: object,
    spool_fsync: object,
    exit_timeout: object,
) -> None:
    """Check the arguments of an emitter."""
    text("service", service)
    beginning("topic_prefix", topic_prefix)
    text("family_pattern", family_pattern)
    patterns_of(family_pattern)
    whole("buffer_size", buffer_size)
    if compression is not None:
        one_of("compression", compression, COMPRESSIONS)
    folder("spool_dir", spool_dir)
    whole("spool_bytes", spool_bytes)
    flag("spool_fsync", spool_fsync)
    number("exit_timeout", exit_timeout)


class FromEnv:
    """A class with a :meth:`from_env`.

    Its constructor takes the brokers as the argument that ``_servers`` names, and the settings that ``_settings`` names.
    """

    _servers: ClassVar[str] = "connection"
    _settings: ClassVar[tuple[str, ...]] = ()
    _may_be_local: ClassVar[bool] = False
    """The brokers may be None: no Kafka."""
    _may_use_gateway: ClassVar[bool] = False
    """In place of the brokers there may be the address of a gateway."""

    @classmethod
    def from_env(cls, **arguments: Any) -> Self:
        """Return one that is configured by ``SWITCHGEAR_*`` variables and the TOML file that ``SWITCHGEAR_CONFIG`` names.

        docs/configuration.md lists the settings. Without any, the broker is ``localhost:9092``. A client uses the gateway at
        ``SWITCHGEAR_GATEWAY_URL``, if that is set, with ``SWITCHGEAR_TOKEN``.

        Args:
            arguments: Of the constructor. They take precedence over the settings. Brokers as text replace the addresses and
                keep the security of the settings; a KafkaConnection replaces both.

        Raises:
            SettingsError: A setting is wrong or unknown. The message names it.
            SwitchgearError: An argument, the credentials or a certificate file can't be used. The message names it.
        """
        from switchgear_schemas.settings import load_client_settings  # noqa: PLC0415 - pydantic costs 70 ms

        settings = load_client_settings()
        given = {name: _value(settings, name) for name in cls._settings}
        found = {name: value for name, value in given.items() if value is not None} | arguments
        servers = arguments.get(cls._servers)
        over_gateway = cls._may_use_gateway and settings.gateway_url is not None and not settings.local
        if cls._servers not in arguments:
            found[cls._servers] = settings.gateway_url if over_gateway else None if settings.local else settings.kafka
            if settings.local and not cls._may_be_local:
                raise SettingsError(
                    f"The setting local is true, which means no Kafka, but {cls.__name__} needs Kafka.",
                    hint="Unset SWITCHGEAR_LOCAL.",
                )
        elif isinstance(servers, str) and not (cls._may_use_gateway and servers.startswith(("https://", "http://"))):
            found[cls._servers] = settings.connection(servers)
        if settings.token is not None and isinstance(found[cls._servers], str):
            found.setdefault("token", settings.token.get_secret_value())
        return cls(**found)


def _value(settings: ClientSettings, name: str) -> Any:
    if name == "service":
        return settings.service or os.environ.get("OTEL_SERVICE_NAME")
    if name == "parameters_key" and settings.parameters_key is not None:
        return settings.parameters_key.get_secret_value().encode()
    if name == "outages_in_text":
        return globs_in(settings.outages_in_text)
    return getattr(settings, name)
