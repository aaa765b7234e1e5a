"""Read the alerts file: TOML with receivers and routes."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from switchgear_alerts.durations import Duration
from switchgear_alerts.errors import AlertsFileError
from switchgear_alerts.grouping import Grouping
from switchgear_alerts.incidents import FlapRules
from switchgear_alerts.quiet import QuietHours, TimeOfDay, zone
from switchgear_alerts.receivers import OPTIONS
from switchgear_alerts.receivers.base import ReceiverOptions
from switchgear_alerts.routes import Route
from switchgear_schemas.files import read_file

M = TypeVar("M", bound=BaseModel)

MAX_BYTES: Final = 1_000_000
_MOST_SHOWN: Final = 60
_TABLES: Final = ("receivers", "routes", "grouping", "flapping", "retry", "digest")
_KEYS: Final = (*_TABLES, "timezone")
_NESTED: Final[dict[str, type[BaseModel]]] = {"quiet": QuietHours}


class Flapping(BaseModel):
    """The ``[flapping]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    opens: int = Field(default=3, ge=0, le=50)
    within: Duration = Field(default=900.0, gt=0)
    settle: Duration = 300.0


class Retry(BaseModel):
    """The ``[retry]`` table: waits between two tries, and how long to try."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Duration = Field(default=1.0, gt=0)
    longest: Duration = Field(default=300.0, gt=0)
    give_up_after: Duration = Field(default=21_600.0, gt=0)


class DigestRules(BaseModel):
    """The ``[digest]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    receivers: tuple[str, ...] = Field(min_length=1)
    at: TimeOfDay


@dataclass(frozen=True, slots=True)
class AlertsFile:
    """A checked alerts file."""

    receivers: Mapping[str, ReceiverOptions]
    routes: tuple[Route, ...]
    grouping: Grouping
    flapping: FlapRules
    retry: Retry
    digest: DigestRules | None
    timezone: ZoneInfo


def load(path: Path) -> AlertsFile:
    """Return the content of an alerts file. Secrets are not read.

    Raises:
        AlertsFileError: The file is missing or wrong. The message names the table and the key, and what is allowed.
    """
    return parse(_text(path), str(path))


def parse(text: str, source: str) -> AlertsFile:
    """Return the content of a document.

    Args:
        text: TOML.
        source: Where it is from, for errors.

    Raises:
        AlertsFileError: See :func:`load`.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AlertsFileError(f"{source} is not valid TOML: {error}.") from None
    for key in content:
        if key not in _KEYS:
            raise _unknown(source, "the top level", key, _KEYS)
    receivers = _receivers(source, content.get("receivers", {}))
    given = _listed(source, "routes", content.get("routes", []))
    routes = tuple(_checked(source, f"[[routes]] number {number}", Route, each) for number, each in enumerate(given, 1))
    digest = content.get("digest")
    found = AlertsFile(
        receivers=receivers,
        routes=routes,
        grouping=_checked(source, "[grouping]", Grouping, content.get("grouping", {})),
        flapping=_flap_rules(_checked(source, "[flapping]", Flapping, content.get("flapping", {}))),
        retry=_checked(source, "[retry]", Retry, content.get("retry", {})),
        digest=None if digest is None else _checked(source, "[digest]", DigestRules, digest),
        timezone=_timezone(source, content.get("timezone", "UTC")),
    )
    _check_names(source, found)
    return found


def _receivers(source: str, content: object) -> dict[str, ReceiverOptions]:
    if not isinstance(content, dict) or not all(isinstance(each, dict) for each in content.values()):
        raise AlertsFileError(f"{source}: receivers are tables.", hint="Write [receivers.NAME] above the keys of each.")
    if not content:
        raise AlertsFileError(f"{source} has no receiver.", hint="Write a table [receivers.NAME] with a type.")
    found: dict[str, ReceiverOptions] = {}
    for name, options in content.items():
        table = f"[receivers.{name}]"
        kind = options.get("type")
        if not isinstance(kind, str) or kind not in OPTIONS:
            given = "is missing" if kind is None else f"is {_shown(kind)}"
            raise AlertsFileError(f"{source}: {table}: type {given}.", hint=f"Write one of {', '.join(OPTIONS)}.")
        found[name] = _checked(source, table, OPTIONS[kind], options)
    return found


def _check_names(source: str, found: AlertsFile) -> None:
    if not found.routes and found.digest is None:
        raise AlertsFileError(f"{source} sends nothing.", hint="Write a table [[routes]] with the receivers' names.")
    named = [(f"[[routes]] number {number}", route.receivers) for number, route in enumerate(found.routes, 1)]
    if found.digest is not None:
        named.append(("[digest]", found.digest.receivers))
    for table, names in named:
        for name in names:
            if name not in found.receivers:
                raise AlertsFileError(
                    f"{source}: {table}, key receivers: there is no receiver {_shown(name)}.",
                    hint=f"Known: {', '.join(sorted(found.receivers))}.",
                )
    for name in found.digest.receivers if found.digest is not None else ():
        if not found.receivers[name].takes_digest:
            raise AlertsFileError(
                f"{source}: [digest], key receivers: {name} is for incidents only and can't show a digest.",
                hint="Name a chat, e-mail or webhook.",
            )


def _checked(source: str, table: str, kind: type[M], content: object) -> M:
    if not isinstance(content, dict):
        raise AlertsFileError(
            f"{source}: {table} is {_shown(content)}, and not a table.", hint="Write its keys below its name."
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _explained(source, table, kind, error) from None


def _explained(source: str, table: str, kind: type[BaseModel], error: ValidationError) -> AlertsFileError:
    """Return the first error in words. A value is shown unless it could be a secret."""
    first = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    where = list(first["loc"])
    model = kind
    if len(where) > 2 and where[0] in _NESTED:
        model = _NESTED[str(where[0])]
        table = f"{table}, {where[0]} number {int(where[1]) + 1}"
        where = where[2:]
    key = str(where[0]) if where else ""
    if first["type"] == "extra_forbidden":
        return _unknown(source, table, key, _keys_of(model))
    if first["type"] == "missing":
        return AlertsFileError(
            f"{source}: {table}: the key {key} is missing.", hint=f"Known: {', '.join(_keys_of(model))}."
        )
    said = first["msg"].removeprefix("Value error, ").replace("Input should", "must").replace("valid tuple", "list")
    may_show = not said.startswith("is a secret") and key not in {
        "url",
        "secrets",
        "password",
        "token",
        "urls",
        "routing_key",
        "proxy",
    }
    got = f" (got {_shown(first['input'])})" if key and may_show and not isinstance(first["input"], dict) else ""
    return AlertsFileError(f"{source}: {table}{f', key {key}' if key else ''}: {said}{got}.")


def _unknown(source: str, table: str, key: str, known: tuple[str, ...]) -> AlertsFileError:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return AlertsFileError(
        f"{source}: {table}: unknown key {key[:_MOST_SHOWN]}.", hint=f"{meant}Known: {', '.join(known)}."
    )


def _keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _listed(source: str, name: str, content: object) -> list[Any]:
    if not isinstance(content, list):
        raise AlertsFileError(
            f"{source}: {name} is not a list of tables.", hint=f"Write [[{name}]], with two brackets."
        )
    return content


def _timezone(source: str, value: object) -> ZoneInfo:
    try:
        return zone(value if isinstance(value, str) else "")
    except ValueError as error:
        raise AlertsFileError(f"{source}: timezone {error} (got {_shown(value)}).") from None


def _flap_rules(found: Flapping) -> FlapRules:
    return FlapRules(opens=found.opens, within_s=found.within, settle_s=found.settle)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _text(path: Path) -> str:
    try:
        content = read_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise AlertsFileError(f"The alerts file {path} can't be read: {why}.", hint="Correct its path.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise AlertsFileError(f"{path} is not UTF-8 text.", hint="Save it as UTF-8.") from None
