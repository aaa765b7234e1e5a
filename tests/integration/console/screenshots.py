"""Write the pictures of the console for the documentation: ``python -m tests.integration.console.screenshots``.

It starts a system with the demo's traffic, waits until a tool is broken, and writes ``docs/images/console-*.png``. Look at them before you
commit them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
from aiokafka import AIOKafkaProducer
from PIL import Image

from tests.support.browser import NARROW, WIDE, Window, running_browser
from tests.support.limits import HAPPEN_S
from tests.support.snippets import REPOSITORY
from tests.support.up import Up

FOLDER: Final = REPOSITORY / "docs" / "images"
MOST_BYTES: Final = 200_000
BROKEN_WITHIN_S: Final = 240.0
SETTLED_MS: Final = 2_500
COLOURS: Final = 192
OPERATED: Final = "mcp:email:send_message"
GATHERED_S: Final = 150.0


def pages(tool: str) -> dict[str, str]:
    """Return the name and the address of each page."""
    name = quote(tool, safe="")
    policy = quote("failure_rate_threshold = 0.3\nminimum_number_of_calls = 10")
    query = quote(
        "SELECT tool_name, count() AS calls, round(quantile(0.95)(execution_time_ms)) AS p95_ms\nFROM tool_metrics\nGROUP BY tool_name\nORDER BY calls DESC"
    )
    return {
        "now": "/",
        "tool": f"/tool/{name}?hours=1",
        "timeline": "/timeline?hours=1",
        "lab": f"/lab?pattern={name}&hours=1&policy={policy}",
        "calls": "/calls?hours=1&status=error",
        "sql": f"/sql?query={query}",
        "dead": "/dead",
        "audit": "/audit",
        "system": "/system",
    }


def save(png: bytes, path: Path) -> None:
    """Write a picture, with fewer colours if the file is too large."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path.name} has {path.stat().st_size} bytes: make the picture simpler.")


def show(page: Any, name: str, address: str) -> None:
    """Open a page and wait until it has settled."""
    page.goto(address)
    page.get_by_role("navigation", name="Pages").wait_for()
    if name == "lab":
        page.get_by_role("button", name="Replay").click()
        page.get_by_text("It would have opened").wait_for()
    if name == "sql":
        page.get_by_role("button", name="Run").click()
        page.get_by_text("p95_ms").last.wait_for()
    page.wait_for_timeout(SETTLED_MS)
    page.wait_for_function("!document.querySelector('.loading')")


def broken_tool(page: Any) -> str:
    """Wait until a tool is open, and return its name."""
    deadline = time.monotonic() + BROKEN_WITHIN_S
    while time.monotonic() < deadline:
        now = page.evaluate("fetch('/v1/console/now').then((answer) => answer.json())")
        found = [each["tool"] for each in now["tools"] if each["state"] == "open" and each["wasted"]["calls"]]
        if found:
            return str(found[0])
        page.wait_for_timeout(1_000)
    raise SystemExit(f"No tool opened within {BROKEN_WITHIN_S:.0f} s.")


def take(url: str, only: str) -> None:
    """Take the pictures of a running console, or those of one page."""
    with running_browser() as browser:
        first = Window(browser, url)
        first.page.goto("/")
        tool = broken_tool(first.page)
        for theme in ("light", "dark"):
            for size in (WIDE, NARROW):
                window = Window(browser, url, theme=theme, size=size)
                for name, address in pages(tool).items():
                    if only not in ("", name):
                        continue
                    show(window.page, name, address)
                    suffix = "-narrow" if size == NARROW else ""
                    save(window.page.screenshot(), FOLDER / f"console-{name}-{theme}{suffix}.png")
                window.close()
        first.close()


def prepare(up: Up) -> None:
    """Let an operator act, let a message be rejected, and let some minutes of calls gather."""
    asyncio.run(_reject(str(up.record()["kafka_bootstrap_servers"])))
    time.sleep(GATHERED_S)
    command = {"command": "force_open", "reason": "Provider maintenance, see OPS-2214", "expires_in_s": 3600}
    url = f"{up.record()['api_url']}/v1/circuits/{quote(OPERATED, safe='')}/commands"
    httpx.post(url, json=command, timeout=HAPPEN_S).raise_for_status()


async def _reject(bootstrap: str) -> None:
    bad = b'{"tool_name": "mcp:stocks:get_quote", "status": "sucess", "execution_time_ms": 120}'
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait("switchgear.executions", bad, key=b"mcp:stocks")


def main(arguments: list[str]) -> None:
    """Take the pictures of a console that runs, or of one that is started for them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running console, such as http://127.0.0.1:8620; by default one is started")
    parser.add_argument("--only", default="", help="one page, such as tool; by default all")
    given = parser.parse_args(arguments)
    url = given.url
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if url is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "data"
            up = stack.enter_context(Up(folder, "--demo"))
            url = str(up.record()["api_url"])
            prepare(up)
        take(url, given.only)


if __name__ == "__main__":
    main(sys.argv[1:])
