"""Bearer tokens: ``sgt_<id>_<secret>``. A server keeps the hash of a token, so its file gives no access.

The secret has 256 random bits. It can't be guessed, so a fast hash (SHA-256) is as good as a slow one. Slow hashes protect
passwords, which people choose and attackers can list. The id is public: it is in lists and in logs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from switchgear_http.errors import InvalidCredentialsError
from switchgear_http.principal import ROLE_NAMES, Principal, Role
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.visible import name as shown

PREFIX: Final = "sgt_"
MAX_TOKENS: Final = 10_000
MAX_BYTES: Final = 8 * 1_048_576
_ID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"  # none that look alike
_ID_LENGTH: Final = 10
_SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"sgt_([a-z0-9]{4,32})_[A-Za-z0-9_-]{20,128}")
_NO_HASH: Final = "0" * 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One token, as its file has it.

    ``sha256`` is the hash of the whole token, in hexadecimal. Times have an offset from UTC. The token of a ``collector`` passes on the
    calls of many processes.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]{4,32}$")]
    name: Name
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1)]
    tenant: Name | None = None
    tools: tuple[Name, ...] = ()
    collector: bool = False
    created_at: Instant | None = None
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def principal(self) -> Principal:
        """Return the client that has this token."""
        return Principal(self.name, frozenset(self.roles), self.tenant, self.tools, f"token {self.id}", self.collector)

    def state(self, now: datetime) -> str:
        """Return ``valid``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    tokens: Annotated[tuple[Token, ...], msgspec.Meta(max_length=MAX_TOKENS)] = ()


class TokenTable:
    """The tokens by id."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens: Mapping[str, Token] = {token.id: token for token in tokens}

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens.values())

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, credential: str, now: datetime | None = None) -> Principal | None:
        """Return the client of a token with its present rights; None if the token isn't valid any more.

        Args:
            credential: ``token <id>``, as of a principal.
            now: For tests; by default the time.
        """
        token = self._tokens.get(credential.removeprefix("token "))
        return token.principal() if token is not None and token.state(now or datetime.now(UTC)) == "valid" else None

    def authenticate(self, text: str, now: datetime | None = None) -> Principal:
        """Return the client that has this token.

        The comparison takes the same time for every wrong token, whether its id exists or not.

        Args:
            text: The token.
            now: For tests; by default the time.

        Raises:
            InvalidCredentialsError: The token is unknown, wrong, expired or revoked.
        """
        found = _TOKEN.fullmatch(text)
        token = self._tokens.get(found[1]) if found else None
        given = digest(text if found else "")
        if not hmac.compare_digest(given, _NO_HASH if token is None else token.sha256) or token is None:
            raise InvalidCredentialsError("The token is unknown.")
        state = token.state(now or datetime.now(UTC))
        if state != "valid":
            raise InvalidCredentialsError(f"The token {token.id} is {state}.")
        return token.principal()


def digest(text: str) -> str:
    """Return the hash of a token, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def new_token(
    name: str,
    roles: Iterable[Role],
    *,
    tenant: str | None = None,
    tools: Iterable[str] = (),
    collector: bool = False,
    expires_at: datetime | None = None,
) -> tuple[Token, str]:
    """Return a new token as its file has it, and its text, which is kept nowhere.

    Raises:
        SettingsError: A value is wrong: an empty name, no roles.
    """
    identity = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    text = f"{PREFIX}{identity}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    given = {
        "id": identity,
        "name": name,
        "sha256": digest(text),
        "roles": list(dict.fromkeys(roles)),
        "tenant": tenant,
        "tools": list(tools),
        "collector": collector,
        "created_at": datetime.now(UTC).replace(microsecond=0),
        "expires_at": expires_at,
    }
    try:
        return msgspec.convert(given, Token), text
    except msgspec.ValidationError as error:
        raise SettingsError(f"The token can't be made: {error}.", hint=f"Roles are {ROLE_NAMES}.") from None


def parse_tokens(text: str, source: str) -> tuple[Token, ...]:
    """Return the tokens of a JSON or TOML document. JSON begins with a brace.

    Args:
        text: The document: ``{"tokens": [...]}``, or tables ``[[tokens]]``.
        source: Where it comes from, for the error.

    Raises:
        SettingsError: The document is wrong. The message names the place, never a value.
    """
    if len(text) > MAX_BYTES:
        raise SettingsError(f"{source} is larger than {MAX_BYTES // 1_048_576} MiB.", hint="Remove revoked tokens.")
    decode = msgspec.json.decode if is_json(text) else msgspec.toml.decode
    try:
        tokens = decode(text, type=_Document).tokens
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SettingsError(
            f"{source} is not a list of tokens: {error}.",
            hint="`switchgear token create` writes such a file. It holds hashes, not the tokens.",
        ) from None
    identities = [token.id for token in tokens]
    twice = next((each for each in identities if identities.count(each) > 1), None) if _repeated(identities) else None
    if twice is not None:
        raise SettingsError(f"{source} has the id {twice} twice.", hint="Remove one of the two tokens.")
    return tokens


def check_names(tokens: Iterable[Token], source: str, now: datetime | None = None) -> None:
    """Check that no two valid tokens have the same name: it says in the audit who acted. One that is expired or revoked doesn't count.

    Args:
        tokens: The tokens of all sources.
        source: Where they come from, for the error.
        now: For tests; by default the time.

    Raises:
        SettingsError: Two have the same.
    """
    at = now or datetime.now(UTC)
    names: dict[str, str] = {}
    for token in tokens:
        if token.state(at) != "valid":
            continue
        if token.name in names:
            raise SettingsError(
                f"{source} has the name {shown(token.name)} twice, in the tokens {names[token.name]} and {token.id}.",
                hint="Change one of the names, or revoke one of the tokens by its id.",
            )
        names[token.name] = token.id


def is_json(text: str) -> bool:
    """Return whether a document of tokens is JSON. Otherwise it is TOML."""
    return text.lstrip().startswith("{")


def with_token(text: str, token: Token) -> str:
    """Return a document with one more token. A TOML document keeps its comments and its form, unless its tokens are an array on one line."""
    if is_json(text):
        return _json(_Document((*parse_tokens(text, "The file"), token)))
    fields = msgspec.to_builtins(token, builtin_types=(datetime,))
    lines = [f"{name} = {_toml(value)}" for name, value in fields.items()]
    longer = "\n".join([*([text.rstrip("\n"), ""] if text.strip() else []), "[[tokens]]", *lines, ""])
    try:
        parse_tokens(longer, "The file")
    except SettingsError:  # `tokens = […]` on one line takes no table after it
        return _json(_Document((*parse_tokens(text, "The file"), token)))
    return longer


def with_revoked(text: str, identity: str, at: datetime) -> str:
    """Return a document in which one token is revoked.

    Args:
        text: The document.
        identity: The token's id.
        at: When it ends.

    Raises:
        SettingsError: The document can't be changed.
    """
    before = parse_tokens(text, "The file")
    wanted = tuple(msgspec.structs.replace(token, revoked_at=at) if token.id == identity else token for token in before)
    if is_json(text):
        return _json(_Document(wanted))
    line = re.compile(rf"^([ \t]*)id[ \t]*=[ \t]*([\"']){re.escape(identity)}\2.*$", re.MULTILINE)
    changed = line.sub(lambda found: f"{found[0]}\n{found[1]}revoked_at = {_toml(at)}", text, count=1)
    try:
        done = parse_tokens(changed, "The file") == wanted
    except SettingsError:
        done = False
    if not done:
        raise SettingsError(
            f"The token {identity} can't be revoked in this file: its form is unusual.",
            hint=f"Add the line: revoked_at = {_toml(at)}",
        )
    return changed


def _repeated(names: list[str]) -> bool:
    return len(set(names)) < len(names)


def _json(document: _Document) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _toml(value: object) -> str:
    """Return a value in TOML. A JSON string is a TOML string, except for one control character that ``json`` leaves as it is."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
