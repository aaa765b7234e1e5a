"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from switchgear_api.console.update_vendor import HERE as CONSOLE
from tests.support.npm import install_locked

_PACKAGES: Final = CONSOLE / "node_modules"
CHROMIUM: Final = "/usr/bin/chromium"
WIDE: Final = (1440, 900)
NARROW: Final = (390, 844)
SLOW_MS: Final = 30_000
"""Two processors, shared with everything else that runs."""
_EXPECTED: Final = re.compile(r"^Failed to load resource: the server responded with a status of 4\d\d")

needs_browser: Final = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason="Chromium is not installed: apt-get install -y chromium"
)


@contextmanager
def running_browser() -> Iterator[Any]:
    """Run Chromium while the block runs."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a skipped test needs no Playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Window:
    """A page in a browser profile of its own.

    Args:
        browser: The browser.
        url: The console.
        theme: ``light`` or ``dark``.
        size: Width and height in pixels.
        bypass_csp: Let a test add scripts.
    """

    def __init__(
        self, browser: Any, url: str, *, theme: str = "light", size: tuple[int, int] = WIDE, bypass_csp: bool = False
    ) -> None:
        self.url = url
        self.problems: list[str] = []
        self.context = browser.new_context(
            base_url=url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            reduced_motion="reduce",
            bypass_csp=bypass_csp,
        )
        self.context.set_default_timeout(SLOW_MS)
        self.page = self.context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.match(message.text):
            self.problems.append(f"{message.type}: {message.text}")

    def log_in(self, token: str, path: str = "/") -> Any:
        """Open a page, log in by token where that is needed, and return the page."""
        self.page.goto(path)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("navigation", name="Pages").wait_for()
        return self.page

    def close(self) -> None:
        """Close the profile. Fail if the browser's console had errors."""
        self.context.close()
        assert self.problems == []


def axe_script() -> str:
    """Return the source of axe-core, which finds problems of accessibility. Skip the test without npm."""
    install_locked(CONSOLE)
    return (_PACKAGES / "axe-core" / "axe.min.js").read_text()
