"""The standard streams of a command.

All of its output goes through them, and they escape control and invisible characters.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from switchgear_schemas.visible import escaped

if TYPE_CHECKING:
    from rich.console import Console

_STYLE: Final = re.compile(r"(\r?(?:\x1b\[[0-9;?]*[A-Za-z])+|\x1b\]8;[\x20-\x7e]*\x1b\\|\r(?=\n|$))")
"""What rich and structlog write to a terminal: colours, cursor movements, links."""


class SafeStream:
    """A text stream that escapes control and invisible characters. Line feeds and tabs pass.

    Args:
        stream: The stream to write to.
        styled: Let colours and cursor movements pass too. For rich and for logs, whose texts are escaped before.
    """

    def __init__(self, stream: TextIO, *, styled: bool = False) -> None:
        self.stream = stream
        self._styled = styled

    @property
    def rich_proxied_file(self) -> TextIO:
        """Return the stream for rich's consoles that were made without a file. rich asks for it."""
        return styled(self.stream)

    def write(self, text: str) -> int:
        """Write ``text`` escaped. Return its length."""
        if self._styled and ("\x1b" in text or "\r" in text):
            parts = _STYLE.split(text)
            self.stream.write("".join(part if place % 2 else escaped(part) for place, part in enumerate(parts)))
        else:
            self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def styled(stream: TextIO) -> TextIO:
    """Return ``stream`` for a writer of colours whose texts are escaped before."""
    return cast("TextIO", SafeStream(stream.stream if isinstance(stream, SafeStream) else stream, styled=True))


def terminal_console(*, stderr: bool = False, **options: Any) -> Console:
    """Return a console for what is drawn in place.

    While rich draws, it stands before ``sys.stdout`` and ``sys.stderr``. So the console gets its stream now.

    Args:
        stderr: Write to standard error.
        options: Of the console.
    """
    from rich.console import Console  # noqa: PLC0415 - a command that draws nothing starts without it

    return Console(file=styled(sys.stderr if stderr else sys.stdout), **options)


@contextlib.contextmanager
def safe_output() -> Iterator[None]:
    """Make standard output and standard error safe while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast("TextIO", stream if isinstance(stream, SafeStream) else SafeStream(stream)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
