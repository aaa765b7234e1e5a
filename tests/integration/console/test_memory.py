"""What a page of the console keeps in memory while the fleet changes. The browser is real, the server is not: no Kafka is needed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from switchgear_api.console.figures import Figures, ToolFigures
from switchgear_api.console.now import assemble
from switchgear_api.console.pages import ASSETS
from switchgear_schemas.settings import load_settings
from tests.support.browser import Window, needs_browser

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300), needs_browser]

TOOLS: Final = 2_000
TOUCHED: Final = 300
"""Tools whose circuits change."""
WARM: Final = 200
"""Changes after which the compiled code and the caches of the browser have their size."""
CHANGES: Final = 1_000
MOST_GROWTH_MB: Final = 3.0
SESSION: Final = {"name": "vera", "roles": ["read"], "tenant": None, "csrf": None, "login": "none", "expires_at": None}
TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STREAM: Final = """
  window.streams = [];
  window.EventSource = class extends EventTarget {
    static CLOSED = 2;
    constructor() {
      super();
      this.readyState = 1;
      window.streams.push(this);
    }
    close() {
      this.readyState = 2;
    }
  };
"""
"""A stream that the test writes to."""
CHANGE: Final = """async ([rows, data, from, to]) => {
  const send = (kind, content) => {
    const event = new MessageEvent(kind, { data: JSON.stringify(content) });
    for (const stream of window.streams) if (stream.readyState !== 2) stream.dispatchEvent(event);
  };
  for (let number = from; number < to; number += 1) {
    // Every third change is of one tool. Of the others, each second one closes what was opened four before.
    const row = rows[[0, number, Math.max(1, number - 13)][number % 3] % rows.length];
    const opens = [number % 2 === 0, true, false][number % 3];
    const why = opens ? `Failure ${number}.` : null;
    send("circuit", { ...row, state: opens ? "open" : "closed", version: number + 1, since: new Date().toISOString(), why });
    if (number % 100 === 99) send("heartbeat", { ...data, now: new Date(Date.now() + number * 600).toISOString() }); // a minute passes
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  }
}"""
"""Send changes of circuits, a frame for each. A hundred of them take a minute of the server's clock."""


def answer(url: str, loaded: dict[str, Any]) -> tuple[str, bytes]:
    """Return the media type and the content of an address."""
    path, query = urlsplit(url)[2:4]
    if path == "/v1/session":
        return "application/json", json.dumps(SESSION).encode()
    if path == "/v1/console/now":
        return "application/json", json.dumps(loaded | ({"tools": []} if "troubled=1" in query else {})).encode()
    file = ASSETS / (path.removeprefix("/assets/") if path.startswith("/assets/") else "index.html")
    return TYPES[file.suffix], file.read_bytes().replace(b"%ASSETS%", b"/assets")


def now() -> dict[str, Any]:
    at = datetime.now(UTC)
    figures = ToolFigures(6_000, 30, 3, last_at=at, beat_calls=(100,) * 60, beat_errors=(1,) * 30 + (0,) * 30)
    tools = {f"mcp:server-{number % 40}:tool-{number}": figures for number in range(TOOLS)}
    found = Figures(at - timedelta(hours=1), 60, tools, {}, {}, {}, {}, at)
    data = {"newest_event_at": at.isoformat(), "circuits_fresh": True, "circuits_age_s": 0.1}
    head = {"checked_at": at.isoformat(), "minutes": 60, "live_id": "a-0", "data": data}
    return head | assemble({}, found, {}, family_pattern=load_settings().family_pattern)


def test_the_memory_of_a_page_does_not_grow_with_the_number_of_changes(browser):
    window, loaded = Window(browser, "http://console.test"), now()
    page, rows = window.page, loaded["tools"][:TOUCHED]

    def fulfill(route: Any) -> None:
        kind, content = answer(route.request.url, loaded)
        route.fulfill(content_type=kind, body=content)

    page.route("**/*", fulfill)
    page.add_init_script(STREAM)
    page.goto("/")
    page.wait_for_function("window.streams.length === 1")
    debugger = window.context.new_cdp_session(page)

    def held_mb() -> float:
        debugger.send("HeapProfiler.collectGarbage")
        return debugger.send("Runtime.getHeapUsage")["usedSize"] / 1e6

    page.evaluate(CHANGE, [rows, loaded["data"], 0, WARM])
    page.get_by_role("article").first.wait_for()  # the page follows the changes
    before = held_mb()
    page.evaluate(CHANGE, [rows, loaded["data"], WARM, WARM + CHANGES])
    grown = held_mb() - before
    window.close()
    assert grown < MOST_GROWTH_MB, f"{grown:.1f} MB for {CHANGES} changes, {before:.1f} MB before them"
