"""``switchgear token``: create, list and revoke the tokens of the HTTP API and the gateway."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter
from rich.text import Text

from switchgear_cli.reads import output
from switchgear_cli.reads.formats import named
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, name, words
from switchgear_cli.times import parse_duration
from switchgear_http.principal import ROLE_NAMES, Role
from switchgear_http.tokens import MAX_BYTES, Token, new_token, parse_tokens, with_revoked, with_token
from switchgear_schemas import json_file
from switchgear_schemas.access_settings import comma_separated
from switchgear_schemas.errors import SettingsError, WrongUsageError
from switchgear_schemas.file_lock import FileLock
from switchgear_schemas.files import read_file
from switchgear_schemas.settings import load_settings

token = App(name="token", help="Create, list and revoke tokens.")

_LOCK_S: Final = 5.0
_ONE_REPORTER: Final = (
    "At a gateway it is one reporter, however many processes use it. If others call a tool, too, failures of this token alone don't open a"
    " circuit whose policy has minimum_reporters = 2 or more. Give each service its own token. With --collector each emitter_id is a reporter."
)


@token.command
def create(
    holder: Annotated[str, Parameter(name="NAME")],
    /,
    *,
    roles: Annotated[str, Parameter(help=f"What it allows, comma-separated: {ROLE_NAMES}.")],
    tenant: str | None = None,
    tools: str | None = None,
    collector: Annotated[bool, Parameter(negative=())] = False,
    expires: str | None = None,
    tokens_file: Path | None = None,
) -> None:
    """Create a token, and print it. It is printed this once: the file keeps a hash.

    Args:
        holder: Who will use it, for lists, logs and the audit. No other valid token has this name.
        roles: What it allows, comma-separated.
        tenant: The only tenant whose data it may see or send.
        tools: Globs of the tools that it may see or use, comma-separated.
        collector: It passes on the calls of many processes. Each emitter_id is then a reporter, not the token.
        expires: How long it is valid: 12h, 90d. By default until it is revoked.
        tokens_file: File of the tokens, by default the setting access_tokens_file. It is made if it is missing.
    """
    made, text = new_token(
        holder,
        [_role(each) for each in comma_separated(roles)],
        tenant=tenant,
        tools=comma_separated(tools),
        collector=collector,
        expires_at=None
        if expires is None
        else datetime.now(UTC).replace(microsecond=0) + parse_duration(expires, "--expires"),
    )
    path = _path(tokens_file)
    with _locked(path):
        before = _read(path, may_be_missing=True)
        _check_name(parse_tokens(before, str(path)), holder)
        _write(path, with_token(before, made))
    print(text)
    print(
        f"Token {made.id} of {named(holder)} is in {path}. Keep the line above: it is not shown again.", file=sys.stderr
    )
    if made.principal().may(Role.EMIT) and not collector:
        print(_ONE_REPORTER, file=sys.stderr)


@token.command(name="list")
def list_tokens(*, tokens_file: Path | None = None, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """List the tokens with their roles and whether they are valid.

    Args:
        tokens_file: File of the tokens, by default the setting access_tokens_file.
        json: One JSON document instead of a table.
    """
    path = _path(tokens_file)
    found = parse_tokens(_read(path), str(path))
    now = datetime.now(UTC)
    if json:
        output.show_json({"tokens": [_shown(each, now) for each in found]})
    elif found:
        output.show(_table(found, now))
    else:
        print(f"There are no tokens in {path}.")


@token.command
def revoke(token_id: str, /, *, tokens_file: Path | None = None) -> None:
    """Revoke a token. Servers that read the file refuse it a second later.

    Args:
        token_id: The id, as `switchgear token list` shows it, or the name if only one valid token has it.
        tokens_file: File of the tokens, by default the setting access_tokens_file.
    """
    path = _path(tokens_file)
    now = datetime.now(UTC).replace(microsecond=0)
    with _locked(path):
        text = _read(path)
        meant = _meant(parse_tokens(text, str(path)), token_id, now)
        if meant.revoked_at is None:
            _write(path, with_revoked(text, meant.id, now))
    print(f"Token {meant.id} of {named(meant.name)} is revoked.")


def _meant(found: tuple[Token, ...], given: str, now: datetime) -> Token:
    by_id = [each for each in found if each.id == given]
    by_name = [each for each in found if each.name == given and each.state(now) == "valid"]
    matching = by_id or by_name
    if not matching:
        raise WrongUsageError(f"There is no valid token {given!r}.", hint="`switchgear token list` shows them.")
    if len(matching) > 1:
        raise WrongUsageError(
            f"{len(matching)} valid tokens have the name {given!r}.",
            hint=f"Give the id of one: {', '.join(each.id for each in matching)}.",
        )
    return matching[0]


def _check_name(found: tuple[Token, ...], holder: str) -> None:
    now = datetime.now(UTC)
    same = next((each for each in found if each.name == holder and each.state(now) == "valid"), None)
    if same is not None:
        raise WrongUsageError(
            f"The token {same.id} has the name {named(holder)} already, and the audit shows names.",
            hint="Choose another name, or revoke that token first.",
        )


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise WrongUsageError(f"--roles {text!r} is not a role.", hint=f"Roles are {ROLE_NAMES}.") from None


def _path(given: Path | None) -> Path:
    path = given or load_settings().access_tokens_file
    if path is None:
        raise WrongUsageError(
            "No file of tokens is named.", hint="Give --tokens-file tokens.toml, or set SWITCHGEAR_ACCESS_TOKENS_FILE."
        )
    return path.expanduser().resolve()  # a link stays a link


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        acquired = lock.acquire(_LOCK_S)
    except OSError as error:
        raise _unwritable(path, error) from None
    if not acquired:
        raise SettingsError(f"Another `switchgear token` is changing {path}.", hint="Try again.")
    try:
        yield
    finally:
        lock.release()


def _read(path: Path, *, may_be_missing: bool = False) -> str:
    try:
        return read_file(path, MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        if may_be_missing:
            return "" if path.suffix != ".json" else "{}"
        raise SettingsError(f"There is no file {path}.", hint="`switchgear token create` makes it.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}.", hint="Correct its permissions.") from None


def _write(path: Path, text: str) -> None:
    """Replace the file as a whole. A new file is its owner's alone (mode 0600), an old one keeps its owner and mode."""
    try:
        json_file.write(path, text.encode(), like=path)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(f"{path} can't be written: {error.strerror}.", hint="Correct its permissions.")


def _shown(each: Token, now: datetime) -> dict[str, object]:
    return {
        "id": each.id,
        "name": each.name,
        "roles": list(each.roles),
        "tenant": each.tenant,
        "tools": list(each.tools),
        "collector": each.collector,
        "state": each.state(now),
        "created_at": _iso(each.created_at),
        "expires_at": _iso(each.expires_at),
        "revoked_at": _iso(each.revoked_at),
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _table(found: tuple[Token, ...], now: datetime) -> ResponsiveTable:
    table = ResponsiveTable(
        name("id"), name("name"), Column("roles"), Column("state"), Column("until"), name("tenant"), words("tools")
    )
    for each in found:
        state = each.state(now)
        until = "" if each.expires_at is None else f"{each.expires_at.astimezone(UTC):%Y-%m-%d %H:%M}"
        table.add(
            each.id,
            named(each.name),
            ", ".join(each.roles),
            Text(state, style="" if state == "valid" else "red"),
            until,
            named(each.tenant or ""),
            named(", ".join(each.tools)),
        )
    return table
