"""A bounded log file that a child process writes to directly."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 10 * 1024 * 1024
_TAIL_BYTES: Final = 16_384


def rotate(file: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Copy a file that has grown past ``max_bytes`` to ``<file>.1`` and empty it; two files bound the space.

    The child keeps writing to the same open file (in append mode, so at its new end). Lines that it writes between
    the copy and the cut are lost: a log is allowed that, and no child waits for us.

    Returns:
        Whether it was rotated.
    """
    try:
        if file.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    aside = file.with_name(f"{file.name}.1")
    try:
        shutil.copyfile(file, aside)
    except OSError:  # a full disk: emptying the log is then the more urgent
        aside.unlink(missing_ok=True)
    with file.open("r+b") as stream:
        stream.truncate(0)
    return True


def last_line(file: Path) -> str:
    """The last line that is not empty; ``""`` where there is none. Short: it goes into a sentence."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(file.stat().st_size - _TAIL_BYTES, 0))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return next((line.strip()[:400] for line in reversed(text.splitlines()) if line.strip()), "")
