"""The demo's tools. How each behaves is a pure function of the tool, the time and a source of randomness."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

# The failing tool's cycle: it works, breaks, stays broken long enough for a probe to fail, and recovers.
HEALTHY_S: Final = 20.0
BROKEN_S: Final = 25.0
RECOVERED_S: Final = 35.0
FAILING_CYCLE_S: Final = HEALTHY_S + BROKEN_S + RECOVERED_S
FLAP_S: Final = 7.0
SLOW_CYCLE_S: Final = 90.0
SLOW_SHARE: Final = 0.4


class DemoServerError(ConnectionError):
    """The tool's server failed or could not be reached."""


class DemoToolError(ValueError):
    """The tool works and refuses a bad argument."""


@dataclass(frozen=True, slots=True)
class DemoTool:
    """A tool that agents call.

    Attributes:
        name: ``mcp:server:tool``.
        weight: How often it is called, relative to the others.
        median_ms: Median duration of a call.
        failure_rate: Share of calls that fail when all is well.
        refusal_rate: Share of calls that the tool answers with an error of the caller's: no breaker counts those.
        behaviour: ``steady``, ``failing`` (broken for a stretch of each cycle), ``flapping`` or ``slow``.
        output_tokens: Mean size of an answer in a model's tokens.
    """

    name: str
    weight: float
    median_ms: float
    failure_rate: float = 0.01
    refusal_rate: float = 0.02
    behaviour: str = "steady"
    output_tokens: int = 300


TOOLS: Final = (
    DemoTool("mcp:weather:get_forecast", 14, 120, behaviour="failing", output_tokens=220),
    DemoTool("mcp:backup-weather:get_forecast", 2, 260, output_tokens=240),
    DemoTool("mcp:web:search", 16, 420, failure_rate=0.02, output_tokens=900),
    DemoTool("mcp:web:fetch_page", 12, 650, failure_rate=0.04, behaviour="slow", output_tokens=2_400),
    DemoTool("mcp:payments:create_invoice", 6, 180, behaviour="flapping", refusal_rate=0.05, output_tokens=120),
    DemoTool("mcp:github:search_issues", 9, 310, output_tokens=1_100),
    DemoTool("mcp:github:create_comment", 4, 280, refusal_rate=0.06, output_tokens=90),
    DemoTool("mcp:postgres:query", 12, 45, refusal_rate=0.08, output_tokens=600),
    DemoTool("mcp:filesystem:read_file", 12, 8, refusal_rate=0.04, output_tokens=1_500),
    DemoTool("mcp:calendar:list_events", 5, 150, output_tokens=350),
    DemoTool("mcp:email:send_message", 4, 240, output_tokens=60),
    DemoTool("mcp:vector-store:similarity_search", 10, 70, output_tokens=800),
)


@dataclass(frozen=True, slots=True)
class DemoCall:
    """How one call goes: it takes ``duration_ms`` and then raises ``error``, if there is one."""

    duration_ms: float
    error: Exception | None


def broken(tool: DemoTool, elapsed_s: float) -> bool:
    """Return whether the tool is in a bad stretch, ``elapsed_s`` seconds after the demo began."""
    if tool.behaviour == "failing":
        return HEALTHY_S <= elapsed_s % FAILING_CYCLE_S < HEALTHY_S + BROKEN_S
    if tool.behaviour == "flapping":
        return int(elapsed_s / FLAP_S) % 2 == 1
    if tool.behaviour == "slow":
        return elapsed_s % SLOW_CYCLE_S > SLOW_CYCLE_S * (1 - SLOW_SHARE)
    return False


def call(tool: DemoTool, elapsed_s: float, chance: random.Random) -> DemoCall:
    """Return how a call of the tool goes at this time."""
    bad = broken(tool, elapsed_s)
    duration_ms = chance.lognormvariate(0, 0.45) * tool.median_ms
    if tool.behaviour == "slow" and bad:
        duration_ms += chance.uniform(1_800, 3_500)
    failure_rate = tool.failure_rate
    if bad and tool.behaviour == "failing":
        failure_rate = 0.97
    elif bad and tool.behaviour == "flapping":
        failure_rate = 0.85
    if chance.random() < failure_rate:
        return DemoCall(duration_ms, _failure(tool, chance))
    if chance.random() < tool.refusal_rate:
        return DemoCall(duration_ms, DemoToolError(f"{tool.name.rsplit(':', 1)[1]}: an argument is not valid (demo)"))
    return DemoCall(duration_ms, None)


def _failure(tool: DemoTool, chance: random.Random) -> Exception:
    server = tool.name.split(":")[1]
    if chance.random() < 0.25:
        return TimeoutError(f"{server} did not answer in time (demo)")
    return DemoServerError(f"{server}: 503 Service Unavailable (demo)")


def choose(chance: random.Random) -> DemoTool:
    """Return the tool that an agent calls next."""
    return chance.choices(TOOLS, weights=[tool.weight for tool in TOOLS])[0]
