"""The real API over the embedded engine, with a token of each role, one tool that is down and one that works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from tests.support.api import serving
from tests.support.engine import call, store_calls, store_circuits
from tests.support.engine_fixtures import engine, store
from tests.support.processes import Child, switchgear

__all__ = ["engine", "store"]

HOLDERS = {
    "emit": (Role.EMIT, None),
    "read": (Role.READ, None),
    "operate": (Role.OPERATE, None),
    "admin": (Role.ADMIN, None),
    "acme": (Role.OPERATE, "acme"),
}
QUESTIONS = ["tools_down", "tool_status", "why", "alternatives", "plan_check", "recent_errors"]


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    """The text of each holder's token, and the document of all as ``file``."""
    document, found = "", dict[str, str]()
    for name, (role, tenant) in HOLDERS.items():
        token, found[name] = new_token(name, [role], tenant=tenant)
        document = with_token(document, token)
    return found | {"file": document}


def opened(tool: str = "search") -> Circuit:
    """A circuit that a rule has opened."""
    return Circuit(
        circuit_id=tool,
        tool_name=tool,
        state="open",
        previous_state="closed",
        version=3,
        generation=2,
        cause=Cause(rule="consecutive_failures", value=5, threshold=5),
        changed_at=datetime.now(UTC),
        last_error="HTTP 503",
        fallback=("archive",),
    )


@pytest.fixture
async def api(store, tokens):
    """The API's address."""
    calls = [call("search", "error", error_message="HTTP 503", error_class="server", tenant="acme") for _ in range(5)]
    await store_calls(store, [*calls, *(call("archive", cost_usd=0.01) for _ in range(5))])
    await store_circuits(store, [opened()])
    with serving(store, Settings(access_tokens=tokens["file"])) as url:
        yield url


@contextmanager
def over_http(api: str, tmp_path: Path, *flags: str) -> Iterator[tuple[str, Child]]:
    """Yield the address of a ``switchgear mcp`` over HTTP, and its process."""
    log = tmp_path / "mcp.log"
    with switchgear("mcp", "--http", "127.0.0.1:0", *flags, log=log, extra={"SWITCHGEAR_API_URL": api}) as child:
        child.wait_for_output("/mcp.")
        found = re.search(r"Serving (http://\S+/mcp)\.", child.output())
        assert found is not None
        yield found[1], child
