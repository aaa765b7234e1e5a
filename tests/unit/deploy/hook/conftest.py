"""A session of Claude Code, as its hooks see it."""

from __future__ import annotations

import itertools

import pytest

from switchgear_cli.hook.calls import Options
from switchgear_cli.hook.events import answer
from switchgear_cli.hook.state import State

REFUSED = "MCP error -32000: Connection closed"
TOOL = "mcp__weather__get_forecast"


class Session:
    """Sends events in the shape of the documentation, and returns the answers."""

    _ids = itertools.count(1)

    def __init__(self, state, name="s-1"):
        self.state, self.name, self.options = state, name, Options()
        self.now = 1_000_000.0

    def send(self, event, **fields):
        common = {"session_id": self.name, "transcript_path": "/t.jsonl", "cwd": "/", "hook_event_name": event}
        return answer(common | fields, self.options, self.state, lambda: self.now)

    def before(self, tool=TOOL, call="", arguments=None):
        """Return the reason of the refusal, or None."""
        found = self.send("PreToolUse", tool_name=tool, tool_use_id=call, tool_input=arguments or {"city": "Oslo"})
        return None if found is None else found["hookSpecificOutput"]["permissionDecisionReason"]

    def call(self, tool=TOOL, error=None, arguments=None, **fields):
        """Make a call that ends in this way. Return the reason of its refusal, or None."""
        call = f"toolu_{next(self._ids)}"
        reason = self.before(tool, call, arguments)
        if reason is None:
            self.after(tool, call, error, arguments, **fields)
        return reason

    def after(self, tool, call, error=None, arguments=None, **fields):
        sent = {"tool_name": tool, "tool_use_id": call, "tool_input": arguments or {"city": "Oslo"}, "duration_ms": 40}
        if error is None:
            fields = {"tool_response": [{"type": "text", "text": "sunny"}]} | fields
            assert self.send("PostToolUse", **sent, **fields) is None
        else:
            assert self.send("PostToolUseFailure", **sent, error=error, **fields) is None

    def outage(self, tool=TOOL):
        for _ in range(5):
            assert self.call(tool, REFUSED) is None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "hooks.db"


@pytest.fixture
def state(path):
    with State(path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("API_URL", "CONFIG", "KAFKA_BOOTSTRAP_SERVERS", "FAMILY_PATTERN", "LOCAL", "OUTAGES_IN_TEXT"):
        monkeypatch.delenv(f"SWITCHGEAR_{name}", raising=False)


@pytest.fixture
def session(state):
    return Session(state)


@pytest.fixture
def another(state):
    """Another session of the same machine."""
    return Session(state, "s-2")
