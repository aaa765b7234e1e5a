"""How many calls until a circuit opens, for our defaults and for other breakers' default rules, by simulation.

    python -m tests.bench.breaker_defaults

Every rule runs through the real Breaker, as a policy. Two questions, two tables:

* A tool fails a steady share of its calls: how many calls between opens? Up to the tolerable share more is better.
* A tool was healthy for ten minutes (or 1,000 calls, whatever is longer) and then fails a share: how many calls until
  it opens? Fewer is better.

Calls arrive evenly. Seeds are fixed. A cell is total calls / opens; ``>n``: no open in n calls.
"""

from __future__ import annotations

import random
import sys

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy

BUDGET = 200_000
"""Calls per cell of the first table."""
TRIALS = 40
"""Breaks per cell of the second table."""
GIVE_UP = 10_000
SHARES = (0.0, 0.01, 0.05, 0.10, 0.20, 0.30, 0.50, 1.0)
BROKEN = (0.20, 0.30, 0.50, 1.0)
VOLUMES = (0.1, 10.0, 1000.0)
RULES: dict[str, BreakerPolicy] = {
    "Switchgear fleet": FLEET_DEFAULT,
    "Switchgear local": LOCAL_DEFAULT,
    "resilience4j": BreakerPolicy(
        failure_rate_threshold=0.5,
        minimum_number_of_calls=100,
        sliding_window_type="count",
        sliding_window_size=100,
    ),
    "Polly": BreakerPolicy(failure_rate_threshold=0.1, minimum_number_of_calls=100, sliding_window_size=30),
    "Hystrix": BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=20, sliding_window_size=10),
    "Envoy": BreakerPolicy(consecutive_failures=5),
    "pybreaker": BreakerPolicy(consecutive_failures=5),
}
OK, BAD = Result(reporter="a"), Result(ResultKind.FAILURE, reporter="a")


def calls_between_opens(policy: BreakerPolicy, share: float, volume: float, seed: int, budget: int = BUDGET) -> str:
    """Steady share: calls / opens, the circuit starts again after each."""
    draw = random.Random(seed).random
    breaker, now, opens = Breaker("tool", policy, 0.0), 0.0, 0
    step = 1 / volume
    for _ in range(budget):
        now += step
        if breaker.record(now, BAD if draw() < share else OK) is not None:
            opens += 1
            breaker = Breaker("tool", policy, now)
    return f">{budget:,}" if not opens else f"{budget / opens:,.0f}"


def calls_to_open(policy: BreakerPolicy, share: float, volume: float, seed: int) -> str:
    """Return the mean calls from a break to the open, with the share of breaks that were never noticed."""
    draw = random.Random(seed).random
    step, total, missed = 1 / volume, 0, 0
    healthy = max(1000, int(min(600 * volume, 3000)))
    for _ in range(TRIALS):
        breaker, now = Breaker("tool", policy, 0.0), 0.0
        for _ in range(healthy):
            now += step
            breaker.record(now, OK)
        for calls in range(1, GIVE_UP + 1):
            now += step
            if breaker.record(now, BAD if draw() < share else OK) is not None:
                total += calls
                break
        else:
            missed += 1
    if missed == TRIALS:
        return "never"
    mean = f"{total / (TRIALS - missed):,.0f}"
    return mean if not missed else f"{mean} ({missed}/{TRIALS} never)"


def table(title: str, shares: tuple[float, ...], cell: object) -> None:
    assert callable(cell)
    print(f"\n{title}\n")
    print(f"| rule | calls/s | {' | '.join(f'{share:.0%}' for share in shares)} |")
    print(f"|---|---|{'---|' * len(shares)}")
    for name, policy in RULES.items():
        for volume in VOLUMES:
            row = [cell(policy, share, volume, seed=1) for share in shares]
            print(f"| {name} | {volume:g} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    table(f"Calls between opens at a steady share of failures ({BUDGET:,} calls a cell)", SHARES, calls_between_opens)
    table(
        f"Calls to open after a break, from good health ({TRIALS} breaks a cell, given up after {GIVE_UP:,} calls)",
        BROKEN,
        calls_to_open,
    )
    sys.exit(0)
