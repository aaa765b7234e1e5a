"""Draw frames in place until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from switchgear_cli.reads.client import ApiClient
from switchgear_cli.watch.frame import LastAnswer, frame, look

QUIT: Final = frozenset(b"qQ\x03")
FOOTER: Final = "q quits"
_DRAW_S: Final = 1.0
"""Ages and waits are in seconds, so the frame is drawn this often, however seldom the API is read."""


def run_watch(api: ApiClient, interval_s: float, console: Console) -> None:
    """Draw until q or Ctrl-C. The terminal is then as it was before.

    Args:
        api: Where to read.
        interval_s: Seconds between two reads.
        console: The terminal.
    """
    seen = LastAnswer()
    # The alternate screen is written over from its top, and never cleared: nothing flickers.
    with (
        _ended_by_signals(),
        _keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        next_look = 0.0
        while True:
            if time.monotonic() >= next_look:
                seen = look(api, seen)
                next_look = time.monotonic() + interval_s
            live.update(frame(api.url, seen, footer=FOOTER, most=console.height), refresh=True)
            if _pressed(keys, min(_DRAW_S, max(0.0, next_look - time.monotonic()))):
                return


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an error does, so that the terminal becomes as it was before."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Yield the terminal's file descriptor, so that keys come at once and are not shown. None without a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setcbreak(keys)
    try:
        yield keys
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _pressed(keys: int | None, wait_s: float) -> bool:
    """Wait, and return whether a key that quits was pressed. A closed terminal counts as one."""
    if keys is None:
        time.sleep(wait_s)
        return False
    ready, _, _ = select.select([keys], [], [], wait_s)
    if not ready:
        return False
    pressed = os.read(keys, 64)
    return not pressed or not QUIT.isdisjoint(pressed)
