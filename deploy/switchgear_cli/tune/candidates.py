"""The policies that a search tries, drawn at random from sensible ranges by a seed, and the one that it proposes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from switchgear.policies.glob import is_glob
from switchgear_cli.operate.policy_values import policy_from
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy

_SLOW: Final = ("slow_call_duration_threshold_ms", "slow_call_rate_threshold")
_NEUTRAL: Final = {"half_open_decision": "first_failure", "sliding_window_panes": None}
"""Values that a candidate sets back, because others may contradict what it draws."""
FACTORS: Final = (1.0, 1.5, 2.0, 3.0, 5.0)
"""A slow call takes more than this many times the 99th percentile of the tool's usual calls."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy for all tools of a glob.

    Attributes:
        values: What it sets over the present policy. None turns a rule off.
        slow_factor: A call is slow if it takes more than this many times the tool's usual 99th percentile. None leaves the slow-call rule
            as it is.
        slow_share: The slow share that opens.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    slow_factor: float | None = None
    slow_share: float | None = None

    def slow_values(self, slow_ms: float) -> dict[str, float]:
        """Return the slow-call rule of a tool whose usual 99th percentile is ``slow_ms``, or nothing if it has none."""
        if self.slow_factor is None or self.slow_share is None or not 0 < slow_ms < float("inf"):
            return {}
        threshold = max(0.001, float(f"{self.slow_factor * slow_ms:.2g}"))
        return {_SLOW[0]: threshold, _SLOW[1]: self.slow_share}

    def policy(self, present: BreakerPolicy, slow_ms: float) -> BreakerPolicy:
        """Return the policy of one tool, in mode ``enforce``."""
        values = {**present.model_dump(), **self.values, **self.slow_values(slow_ms), "mode": "enforce"}
        cap, wait = values["max_wait_duration_in_open_state_s"], values["wait_duration_in_open_state_s"]
        values["max_wait_duration_in_open_state_s"] = max(cap, wait)
        return BreakerPolicy.model_validate(values)


def draw(
    seed: int, count: int, presents: Sequence[BreakerPolicy], *, failures: bool, slowness: bool
) -> list[Candidate]:
    """Return ``count`` candidates. The same arguments give the same candidates.

    Args:
        seed: Of the random numbers.
        count: How many.
        presents: The present policies of the tools.
        failures: Draw the rules of failures. Without failures in the evidence they stay as they are.
        slowness: Draw the slow-call rule, likewise.
    """
    random = Random(seed)  # noqa: S311 - a search, not a secret
    neutral = {key: value for key, value in _NEUTRAL.items() if any(getattr(each, key) != value for each in presents)}
    by_count = 0.25 if all(each.failure_count is None for each in presents) else 0.0
    return [_one(random, neutral, by_count, failures=failures, slowness=slowness) for _ in range(count)]


def _one(random: Random, neutral: Mapping[str, Any], by_count: float, *, failures: bool, slowness: bool) -> Candidate:
    """Draw one candidate. ``by_count`` is the share of those whose window is of calls, not of seconds."""
    values: dict[str, Any] = dict(neutral)
    if random.random() < by_count:
        size = _spread(random, 10, 200)
        values |= {"sliding_window_type": "count", "sliding_window_size": int(size)}
        values["minimum_number_of_calls"] = min(int(_spread(random, 5, 50)), int(size))
    else:
        values |= {"sliding_window_type": "time", "sliding_window_size": int(_spread(random, 5, 300))}
        values["minimum_number_of_calls"] = int(_spread(random, 5, 50))
    values["wait_duration_in_open_state_s"] = int(_spread(random, 2, 300))
    values["backoff_multiplier"] = random.choice((1.0, 1.0, 1.5, 2.0))
    values["success_threshold_to_close"] = random.choice((1, 1, 2, 3))
    rules = _failure_rules(random)
    factor, share = random.choice(FACTORS), round(random.uniform(0.05, 0.8), 2)
    if failures:
        values |= rules
    return Candidate(values, factor if slowness else None, share if slowness else None)


def _failure_rules(random: Random) -> dict[str, Any]:
    """Return the rules that count failures. At least one of them is on."""
    rate = round(random.uniform(0.1, 0.9), 2) if random.random() < 0.6 else None
    streak = int(_spread(random, 2, 30)) if random.random() < 0.4 else None
    if random.random() < 0.5 or (rate is None and streak is None):
        cusum: dict[str, float] | None = {
            "tolerable_failure_rate": random.choice((0.01, 0.05, 0.1, 0.2)),
            "broken_failure_rate": random.choice((0.4, 0.6, 0.8)),
            "calls_between_false_opens": random.choice((10_000, 100_000, 1_000_000)),
        }
    else:
        cusum = None
    return {"failure_rate_threshold": rate, "consecutive_failures": streak, "cusum": cusum}


def _spread(random: Random, least: float, most: float) -> float:
    """Return a number to two digits, each factor between the limits as likely as any other."""
    return float(f"{least * (most / least) ** random.random():.2g}")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The values of a candidate by the name or glob that they are set for, as a policy file has them."""

    tables: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, candidate: Candidate, glob: str, slow_ms: Mapping[str, float]) -> Proposal:
        """Return the tables: one for the glob, and one for each tool with a slow-call rule of its own.

        Args:
            candidate: The policy.
            glob: What the policy is for. A plain name has one table.
            slow_ms: The usual 99th percentile of each tool.
        """
        common = dict(candidate.values)
        own = {tool: candidate.slow_values(slow) for tool, slow in sorted(slow_ms.items())}
        if not is_glob(glob):
            return cls({glob: {**common, **own.get(glob, {})}})
        return cls({glob: common, **{tool: values for tool, values in own.items() if values and tool != glob}})

    def toml(self, heading: str = "") -> str:
        """Return the tables as TOML, below a comment."""
        lines = [f"# {line}" for line in heading.splitlines()]
        for name, values in self.tables.items():
            lines += [*([""] if lines else []), f"[tools.{json.dumps(name, ensure_ascii=False)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"

    def assignments(self, name: str) -> list[str]:
        """Return the values of one table as ``key=value``, as ``policy set`` takes them."""
        found = []
        for key, value in self.tables[name].items():
            parts = (
                {f"{key}.{part}": inner for part, inner in value.items()} if isinstance(value, dict) else {key: value}
            )
            found += [f"{part}={_assigned(inner)}" for part, inner in parts.items()]
        return found


def _assigned(value: Any) -> str:
    return "off" if value is None else json.dumps(value) if isinstance(value, tuple) else f"{value}"


def _toml(value: Any) -> str:
    if value is None:
        return '"off"'
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


PRESENT: Final = Candidate()
"""The present policy: it sets nothing over it."""
DEFAULT: Final = Candidate(
    FLEET_DEFAULT.model_dump(exclude={"mode", "scope", "fallback", "counted_error_classes", "honor_retry_after"})
)
"""The rules that a tool has without any policy file."""


def live_policies(proposal: Proposal, glob: str) -> dict[str, BreakerPolicy]:
    """Return the values to set for each name or glob. Those of ``glob`` put its circuits into metrics-only mode.

    Args:
        proposal: What the search proposes.
        glob: Name or glob that the proposal is for.
    """
    return {
        name: policy_from([*proposal.assignments(name), *(["mode=metrics_only"] if name == glob else [])], None)
        for name in proposal.tables
    }
