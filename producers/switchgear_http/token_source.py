"""Where a server reads its tokens: a file that it reads again when it changes, or fixed text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

import structlog

from switchgear_http.tokens import MAX_BYTES, Token, TokenTable, check_names, parse_tokens
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.files import read_file

log = structlog.get_logger()

CHECK_EVERY_S: Final = 1.0


class TokenSource(Protocol):
    """Has the tokens that are valid now."""

    @property
    def table(self) -> TokenTable:
        """The tokens."""
        ...


class FixedTokens:
    """Tokens of a setting. They change with a restart only.

    Args:
        text: A JSON or TOML document.
        source: The setting's name, for the error.

    Raises:
        SettingsError: The document is wrong.
    """

    def __init__(self, text: str, source: str) -> None:
        tokens = parse_tokens(text, source)
        check_names(tokens, source)
        self._table = TokenTable(tokens)

    @property
    def table(self) -> TokenTable:
        """The tokens."""
        return self._table


class TokenFile:
    """Tokens of a file. A change is seen at the next request, a second later at most.

    If the file can't be read any more, the last good tokens stay valid, and the log says so once for each change.

    Args:
        path: The file. Replace it as a whole (write a new one and rename it), as ``switchgear token`` does.
        others: Tokens of another source. Their names can't be used again.
        check_every_s: Seconds between two looks at the file.
        clock: For tests.

    Raises:
        SettingsError: The file can't be read, or isn't a list of tokens.
    """

    def __init__(
        self,
        path: Path,
        others: Iterable[Token] = (),
        *,
        check_every_s: float = CHECK_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._others = tuple(others)
        self._check_every_s = check_every_s
        self._clock = clock
        self._checked_at = clock()
        self._seen = self._identity()
        self._table = self._read()

    @property
    def table(self) -> TokenTable:
        """The tokens, from the file if it has changed."""
        now = self._clock()
        if now - self._checked_at >= self._check_every_s:
            self._checked_at = now
            identity = self._identity()
            if identity != self._seen:
                self._seen = identity
                self._reload()
        return self._table

    def _reload(self) -> None:
        try:
            self._table = self._read()
        except SettingsError as error:
            log.warning("the tokens were not read again: the last good ones stay valid", why=str(error))
        else:
            log.info("tokens read", file=str(self._path), tokens=len(self._table))

    def _identity(self) -> tuple[int, int, int] | None:
        """Return what changes with the file: a replaced file has another inode."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> TokenTable:
        try:
            text = read_file(self._path, MAX_BYTES).decode("utf-8-sig")
        except OSError as error:
            raise SettingsError(
                f"The file of tokens {self._path} can't be read: {error.strerror}.",
                hint="Correct access_tokens_file, or make the file with `switchgear token create`.",
            ) from None
        except UnicodeDecodeError:
            raise SettingsError(
                f"The file of tokens {self._path} is not UTF-8 text.", hint="Save it as UTF-8."
            ) from None
        source = f"The file of tokens {self._path}"
        tokens = parse_tokens(text, source)
        check_names((*self._others, *tokens), source)
        return TokenTable(tokens)
