"""The standard streams of a command: the one place where all of its output passes, and where nothing unseen gets through."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, TextIO, cast

from switchgear_schemas.visible import escaped

_STYLE: Final = re.compile(r"(\r?(?:\x1b\[[0-9;?]*[A-Za-z])+|\x1b\]8;[\x20-\x7e]*\x1b\\|\r(?=\n|$))")
"""What rich and structlog write to a terminal: colours, movements of the cursor, links."""


class SafeStream:
    """A text stream that escapes what a terminal would obey and what can't be seen; line feeds and tabs pass.

    Args:
        stream: Where to.
        styled: Let colours and movements of the cursor pass, too: for rich and for logs, whose texts are escaped before.
    """

    def __init__(self, stream: TextIO, *, styled: bool = False) -> None:
        self.stream = stream
        self._styled = styled

    @property
    def rich_proxied_file(self) -> TextIO:
        """Where rich's consoles write that are made without a file of their own; rich asks for it."""
        return styled(self.stream)

    def write(self, text: str) -> int:
        """Write ``text`` escaped; how much of it was written."""
        if self._styled and ("\x1b" in text or "\r" in text):
            parts = _STYLE.split(text)
            self.stream.write("".join(part if place % 2 else escaped(part) for place, part in enumerate(parts)))
        else:
            self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def styled(stream: TextIO) -> TextIO:
    """``stream`` for a writer of colours, whose texts are escaped before."""
    return cast("TextIO", SafeStream(stream.stream if isinstance(stream, SafeStream) else stream, styled=True))


@contextlib.contextmanager
def safe_output() -> Iterator[None]:
    """Standard output and standard error are safe streams while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast("TextIO", stream if isinstance(stream, SafeStream) else SafeStream(stream)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
