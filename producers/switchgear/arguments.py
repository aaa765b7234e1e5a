"""What a client is made with, checked where it is given: a wrong value is told there, by its name, and not by a call hours later.

One function a kind of value. Each takes the argument's name and its value, and raises where the value can't be meant.
"""

from __future__ import annotations

import os
import re
import reprlib
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, TypedDict, Unpack

from switchgear.breaker.policy import PlainPolicy
from switchgear.guard.options import GuardOptions, OptionError
from switchgear.guard.tool_function import examine
from switchgear.numeric import is_number, is_whole
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SettingsError

if TYPE_CHECKING:
    from switchgear_schemas.settings import ClientSettings


COMPRESSIONS: Final = ("gzip", "snappy", "lz4", "zstd")
_MOST_PREFIX: Final = 200
"""Kafka's topic names have 249 characters at most, and ours come after the prefix."""
MOST_S: Final = 1e9
"""31 years: no thread can be told to wait for ever so long (``threading.TIMEOUT_MAX``)."""
_RENAMING: Final = "a dict or a function, from a name to a name"
_short: Final = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def shown(value: object) -> str:
    """``repr(value)``, on one line and bounded, whatever its ``__repr__`` does."""
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # noqa: BLE001 - a number of too many digits, or a __repr__ that fails
        return f"such a {type(value).__name__}"


def impossible(name: str, meant: str, value: object, hint: str = "") -> NoReturn:
    """Raise: ``name`` is what is ``meant``, not ``value``."""
    raise OptionError(f"{name} is {meant}, not {shown(value)}.", hint=hint)


def text(name: str, value: object) -> None:
    """A string; it may be empty."""
    if not isinstance(value, str):
        impossible(name, "a string", value)


def number(name: str, value: object, *, least: float = 0.0, most: float = MOST_S) -> None:
    """A number of seconds in a range; also not NaN."""
    if not is_number(value) or not least <= value <= most:
        impossible(name, f"a number of seconds from {least:g} to {most:.0e}", value)


def whole(name: str, value: object, *, least: int = 1) -> None:
    """A whole number from ``least`` on."""
    if not is_whole(value) or value < least:
        impossible(name, f"a whole number from {least} on", value)


def flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        impossible(name, "True or False", value)


def one_of(name: str, value: object, words: Collection[str]) -> None:
    """One of some ``words``."""
    if not isinstance(value, str) or value not in words:
        impossible(name, f"one of {', '.join(words)}", value)


def function(name: str, value: object) -> None:
    """A function that is called and not awaited."""
    if not callable(value):
        impossible(name, "a function", value)
    if examine(value).kind != "function":
        impossible(name, "a plain function", value, "It is called and not awaited: leave out the async.")


def is_policy(value: object) -> bool:
    """A BreakerPolicy, or our own. Who has made one has imported its module; this does not, for pydantic takes its time."""
    policies = sys.modules.get("switchgear_schemas.policy")
    kinds = (PlainPolicy,) if policies is None else (PlainPolicy, policies.BreakerPolicy)
    return isinstance(value, kinds)


def renaming(name: str, value: object) -> None:
    """What :func:`renamed` goes by, told before there is a name to look up."""
    if callable(value):
        function(name, value)
    elif value is not None and not isinstance(value, Mapping):
        impossible(name, _RENAMING, value)


def renamed(argument: str, names: object, name: str) -> str:
    """What ``name`` is called by ``names``: a mapping, which leaves those that it lacks, a function, or None, which leaves all."""
    if names is None:
        return name
    if isinstance(names, Mapping):
        found = names.get(name, name)
    elif callable(names):
        found = names(name)
    else:
        impossible(argument, _RENAMING, names)
    if not isinstance(found, str) or not found:
        impossible(f"What {argument} has for {name!r}", "a name", found, "Leave out what keeps its name.")
    return found


def policies(name: str, value: object) -> None:
    """A policy, policies by tool name, a function from the name to the policy, or None."""
    if value is None or is_policy(value):
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
    """Bytes to hash with. They are not shown."""
    if not isinstance(value, (bytes, bytearray)):
        raise OptionError(f"{name} is 1 to 64 bytes, not a {type(value).__name__}.", hint=f'{name}=b"..."')
    if not 1 <= len(value) <= 64:
        raise OptionError(
            f"{name} is 1 to 64 bytes, not {len(value)}.", hint="Without a secret the hash could be guessed."
        )


def options(name: str, value: object) -> None:
    """GuardOptions, or None."""
    if value is not None and not isinstance(value, GuardOptions):
        impossible(name, "GuardOptions", value, f"{name}=GuardOptions(timeout=5)")


def connection(name: str, value: object) -> KafkaConnection:
    """A connection, or its ``host:port``, comma-separated; the connection looks at those itself.

    Raises:
        SwitchgearError: it is neither, or they are no addresses.
    """
    if isinstance(value, KafkaConnection):
        return value
    if not isinstance(value, str):
        impossible(name, "host:port, or a KafkaConnection", value, 'Several: "a:9092,b:9092", in one string.')
    return KafkaConnection(value)


def beginning(name: str, value: object) -> None:
    """What may begin a topic's name; also nothing."""
    if not isinstance(value, str) or not re.fullmatch(rf"[a-zA-Z0-9._-]{{0,{_MOST_PREFIX}}}", value):
        impossible(name, f"at most {_MOST_PREFIX} of the characters a-z, A-Z, 0-9, dot, _ and -", value)


def folder(name: str, value: object) -> None:
    """A path, or None."""
    if value is not None and (not isinstance(value, (str, os.PathLike)) or not os.fspath(value)):
        impossible(name, "the path of a folder, or None", value)


class Sending(TypedDict):
    """What an emitter is made with, beside its connection; what each means is told there."""

    service: str
    topic_prefix: str
    buffer_size: int
    compression: str | None
    spool_dir: str | os.PathLike[str] | None
    spool_bytes: int
    spool_fsync: bool
    exit_timeout: float


def sending(**given: Unpack[Sending]) -> None:
    """Each of them."""
    text("service", given["service"])
    beginning("topic_prefix", given["topic_prefix"])
    whole("buffer_size", given["buffer_size"])
    if given["compression"] is not None:
        one_of("compression", given["compression"], COMPRESSIONS)
    folder("spool_dir", given["spool_dir"])
    whole("spool_bytes", given["spool_bytes"])
    flag("spool_fsync", given["spool_fsync"])
    number("exit_timeout", given["exit_timeout"])


class FromEnv:
    """What has a :meth:`from_env`. Its constructor takes the brokers as ``_servers`` and what ``_settings`` names by that name."""

    _servers: ClassVar[str] = "connection"
    _settings: ClassVar[tuple[str, ...]] = ()
    _may_be_local: ClassVar[bool] = False
    """Brokers may be None, for no Kafka."""

    @classmethod
    def from_env(cls, **arguments: Any) -> Self:
        """Make one from ``SWITCHGEAR_*`` variables and the TOML file that ``SWITCHGEAR_CONFIG`` names.

        docs/configuration.md lists the settings. With none it is ``localhost:9092``.

        Args:
            arguments: Of the constructor; they win over the settings. Brokers as text replace the addresses and keep the
                settings' security; a KafkaConnection replaces both.

        Raises:
            SettingsError: a setting is wrong or unknown; the message names it.
            SwitchgearError: an argument, the credentials or a certificate file can't be used; the message names it.
        """
        from switchgear_schemas.settings import load_client_settings  # noqa: PLC0415 - pydantic costs 70 ms

        settings = load_client_settings()
        given = {name: _value(settings, name) for name in cls._settings}
        found = {name: value for name, value in given.items() if value is not None} | arguments
        servers = arguments.get(cls._servers)
        if cls._servers not in arguments:
            found[cls._servers] = None if settings.local else settings.kafka
            if settings.local and not cls._may_be_local:
                raise SettingsError(
                    f"The setting local is true, which means no Kafka, and {cls.__name__} needs it.",
                    hint="Unset SWITCHGEAR_LOCAL.",
                )
        elif isinstance(servers, str):
            found[cls._servers] = settings.connection(servers)
        return cls(**found)


def _value(settings: ClientSettings, name: str) -> Any:
    if name == "service":
        return settings.service or os.environ.get("OTEL_SERVICE_NAME")
    if name == "parameters_key" and settings.parameters_key is not None:
        return settings.parameters_key.get_secret_value().encode()
    return getattr(settings, name)
