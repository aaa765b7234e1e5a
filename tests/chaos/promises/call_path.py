"""The call path never waits for Kafka: no decision takes long, and none raises."""

from __future__ import annotations

from tests.chaos.evidence import Evidence
from tests.chaos.promises.result import PromiseResult

PROMISE = "call-path-never-waits"
LONGEST_S = 3.0
"""A decision that asks for a probe waits 0.25 s by design. One that waited for Kafka would take as long as Kafka is away: 5 s and more.
A time in between comes from the machine, with hundreds of threads on a few cores."""


def call_path_never_waits(evidence: Evidence) -> PromiseResult:
    """Check the decisions of the guards, except those that a SIGSTOP interrupted."""
    faults = []
    worst = 0.0
    slow = 0
    for ledger in evidence.ledgers:
        faults += [f"a decision of {ledger.name} raised {error}" for error in ledger.raised]
        for seconds, start in ledger.slow:
            if _stopped(evidence, ledger.name, start, start + seconds):
                continue
            slow += 1
            worst = max(worst, seconds)
            if seconds > LONGEST_S:
                faults.append(f"a decision of {ledger.name} took {seconds:.2f} s")
    decisions = sum(ledger.sums.get("decisions", 0) for ledger in evidence.ledgers)
    quick = sum(ledger.sums.get("within_a_millisecond", 0) for ledger in evidence.ledgers)
    share = quick / decisions if decisions else 0.0
    summary = f"{decisions:,} decisions, {share:.2%} within 1 ms, {slow} over 0.5 s, the longest of them {worst:.2f} s"
    return PromiseResult(PROMISE, summary, decisions, faults)


def _stopped(evidence: Evidence, name: str, start: float, end: float) -> bool:
    return any(who == name and since <= end and start <= until for who, since, until in evidence.pauses)
