"""Find the system that a client command talks to.

Option, then SWITCHGEAR_*, then a running ``up``, then the default.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from switchgear_cli.up_record import UpRecord
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.settings import Settings, load_settings

KAFKA: Final = "kafka_bootstrap_servers"
API: Final = "api_url"
_OPTIONS: Final = {KAFKA: "--bootstrap-servers", API: "--api-url"}
_VARIABLES: Final = {KAFKA: "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", API: "SWITCHGEAR_API_URL"}
_ANSWER_LIMIT_S: Final = 60.0
_ATTEMPTS: Final = 3

Origin = Literal["named", "found", "default"]
"""Where an address is from: an option, the environment or the settings file; a running ``up``; or neither."""


@dataclass(frozen=True, slots=True)
class System:
    """The system that a command talks to.

    Attributes:
        settings: The settings. ``api_url`` is never None.
        kafka: Where the address of Kafka is from.
        api: Where the address of the API is from. ``default`` too if the ``up`` that was found has another topic prefix than the
            one that is named: its API isn't of that system.
        up: The running ``up`` that it is; None if it is another system.
    """

    settings: Settings
    kafka: Origin
    api: Origin
    up: UpRecord | None = None


def client_settings(*, use: Collection[str] = (KAFKA,), **overrides: Any) -> Settings:
    """Return the settings of a command that talks to a running system, as of :func:`find_system`."""
    return find_system(use=use, **overrides).settings


def find_system(*, use: Collection[str] = (KAFKA,), **overrides: Any) -> System:
    """Return the system that a command talks to.

    An address from an option, the environment or the settings file names the system. If a ``switchgear up`` with that address runs, it
    completes the other address, the topic prefix and the family pattern. The same holds for a ``data_dir``. Without any of these, the command uses this
    user's running ``up``. If several run, it asks the person at the terminal.

    Args:
        use: The addresses that the command uses, of ``KAFKA`` and ``API``. They must be of one system.
        overrides: Command-line options by setting name; None means not given.

    Raises:
        SettingsError: A setting is wrong.
        WrongUsageError: Several systems run and none is named, or the addresses are of two systems.
    """
    settings = load_settings(**overrides)
    addresses = _given(settings)
    given = frozenset(addresses)
    running = UpRecord.all_running(settings.data_dir)
    if "data_dir" in settings.model_fields_set:
        found = UpRecord.running(settings.data_dir)
    else:
        meant = [each for each in running if all(_is_of(each, name, addresses[name]) for name in given)]
        found = _which(meant) if len(meant) > 1 else next(iter(meant), None)
    addresses = {
        KAFKA: settings.kafka_bootstrap_servers if found is None else found.kafka_bootstrap_servers,
        API: _url(settings) if found is None else found.api_url,
    } | addresses
    default = (
        {} if found is not None else {name: _named_otherwise(settings, addresses) for name in addresses.keys() - given}
    )
    for each in running:
        _check_one_system(each, addresses, use, default)
    update: dict[str, Any] = dict(addresses)
    its_kafka = found is not None and _is_of(found, KAFKA, addresses[KAFKA])
    if found is not None and its_kafka:
        shared = {"topic_prefix": found.topic_prefix, "family_pattern": found.family_pattern}
        update |= {name: value for name, value in shared.items() if name not in settings.model_fields_set}
    completed: Origin = "default" if found is None else "found"
    agreed = settings.model_copy(update=update)
    same_topics = found is None or agreed.topic_prefix == found.topic_prefix
    return System(
        agreed,
        kafka="named" if KAFKA in given else completed,
        api="named" if API in given else completed if same_topics else "default",
        up=found if its_kafka and same_topics else None,
    )


def store_settings(
    *, clickhouse: str | None, data_dir: Path | None, api_url: str | None = None, **overrides: Any
) -> Settings | None:
    """Return the settings of the store that a command opens itself, or None if no store is named.

    An option names it (``--clickhouse``, ``--data-dir``), or the setting ``clickhouse_url`` does if it is a server. A folder of the
    embedded engine is opened only if an option of this command names it.

    Raises:
        SettingsError: A setting is wrong.
        WrongUsageError: Two options name two stores.
    """
    options = {"--clickhouse": clickhouse, "--data-dir": data_dir, "--api-url": api_url}
    named = [option for option, value in options.items() if value is not None]
    if len(named) > 1:
        raise WrongUsageError(f"{named[0]} and {named[1]} each name a store.", hint="Give one of them.")
    if data_dir is not None:
        clickhouse = "chdb:"
    settings = load_settings(clickhouse_url=clickhouse, data_dir=data_dir, **overrides)
    return settings if api_url is None and (named or not settings.embedded) else None


def check_only_sink(settings: Settings) -> None:
    """Check that no ``switchgear up`` stores the same events: each store would have part of the rows.

    Raises:
        WrongUsageError: One does.
    """
    if settings.clickhouse_url == "chdb:" and UpRecord.running(settings.data_dir) is not None:
        return  # the sink of that same system: the lock of its store refuses a second one
    for system in UpRecord.all_running(settings.data_dir):
        if system.topic_prefix == settings.topic_prefix and _is_of(system, KAFKA, settings.kafka_bootstrap_servers):
            raise WrongUsageError(
                f"The `switchgear up` on {system.data_dir} stores what comes to {settings.topics.executions} at "
                f"{settings.kafka_bootstrap_servers}; a second sink with another store would take part of the rows from it.",
                hint="Name another Kafka or topic prefix.",
            )


def _given(settings: Settings) -> dict[str, str]:
    """Return the addresses that an option, the environment or the settings file gives."""
    found = {}
    if KAFKA in settings.model_fields_set:
        found[KAFKA] = settings.kafka_bootstrap_servers
    if settings.api_url is not None:
        found[API] = settings.api_url
    elif "api_http" in settings.model_fields_set:
        found[API] = _url(settings)
    return found


def _named_otherwise(settings: Settings, addresses: Mapping[str, str]) -> str:
    """Return the addresses that were given and belong to no running ``up``."""
    for name in _given(settings):
        return f"{name} is {addresses[name]}"
    return f"No `switchgear up` runs on {settings.data_dir}"


def _is_of(system: UpRecord, name: str, address: str) -> bool:
    """Return whether an address is that of a running ``up``, which listens on 127.0.0.1."""
    if name == API:
        return _place(address) == _place(system.api_url)
    return _place(system.kafka_bootstrap_servers) in map(_place, address.split(","))


def _place(address: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(address.strip() if "://" in address else f"//{address.strip()}")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # connecting to it will show what is wrong with it
        return address, None
    host = (parts.hostname or "").lower()
    return "127.0.0.1" if host == "localhost" else host, port


def _check_one_system(
    system: UpRecord, addresses: Mapping[str, str], use: Collection[str], default: Mapping[str, str]
) -> None:
    """Check that the addresses in use are all of ``system``, or that none is.

    Args:
        system: A running system.
        addresses: The addresses of Kafka and the API.
        use: The addresses that the command uses.
        default: Why each address that is a default can't be of ``system``.

    Raises:
        WrongUsageError: They are of different systems.
    """
    of_it = [name for name in use if _is_of(system, name, addresses[name])]
    for name in of_it:
        if name in default:
            raise WrongUsageError(
                f"{default[name]}, and the default {name}, {addresses[name]}, is of the `switchgear up` on {system.data_dir}.",
                hint=f"Give {_OPTIONS[name]} or set {_VARIABLES[name]}.",
            )
    other = next((name for name in use if name not in of_it), None)
    if of_it and other is not None:
        raise WrongUsageError(
            f"{of_it[0]} {addresses[of_it[0]]} is of the `switchgear up` on {system.data_dir}, but {other} "
            f"{addresses[other]} is not.",
            hint=f"Correct or unset {_VARIABLES[of_it[0]]} or {_VARIABLES[other]}: name one system.",
        )


def _which(running: list[UpRecord]) -> UpRecord:
    """Ask which of several systems is meant.

    Raises:
        WrongUsageError: There is no terminal to ask at, or no answer. The error lists the systems.
    """
    if _can_ask():
        print(f"{len(running)} systems run on this machine:", file=sys.stderr)
        for number, each in enumerate(running, 1):
            print(f"  {number}  {_described(each)}", file=sys.stderr)
        for _ in range(_ATTEMPTS):
            answer = _answer(f"Which one? 1 to {len(running)}, Enter for none: ")
            if not answer:
                break
            if answer.isdecimal() and 1 <= int(answer) <= len(running):
                return running[int(answer) - 1]
    lines = [f"{len(running)} systems run on this machine. Say which one is meant, by its lines:"]
    for each in running:
        lines += [f"  # {_described(each)}", *(f"  {line}" for line in each.exports())]
    raise WrongUsageError("\n".join(lines))


def _can_ask() -> bool:
    """Return whether a person sits at the terminal and no program reads the output."""
    if os.environ.get("CI") or {"--json", "--jsonl"} & set(sys.argv):
        return False
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _answer(question: str) -> str:
    """Return a line from the terminal, or nothing if none comes in time."""
    # In a coroutine's command the first Ctrl-C only cancels the task, which can't end while this waits.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(question, end="", file=sys.stderr, flush=True)
        ready, _, _ = select.select([sys.stdin], [], [], _ANSWER_LIMIT_S)
    finally:
        signal.signal(signal.SIGINT, before)
    if not ready:
        print(file=sys.stderr)
        return ""
    return sys.stdin.readline().strip()


def _described(system: UpRecord) -> str:
    return f"{system.data_dir} (API {system.api_url}, Kafka {system.kafka_bootstrap_servers})"


def _url(settings: Settings) -> str:
    """Return the URL at which this machine reaches the API of these settings.

    A listener on every address is reached at the loopback.
    """
    host, _, port = settings.api_http.rpartition(":")
    scheme = "http" if settings.tls_certfile is None else "https"
    return f"{scheme}://{'127.0.0.1' if host in {'0.0.0.0', '::', '[::]'} else host}:{port}"  # noqa: S104 - compared, not bound
